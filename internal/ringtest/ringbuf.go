package ringtest

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
)

// RingBuf is the kernel's side of a BPF ring buffer, by the rules of kernel/bpf/ringbuf.c. Programs
// on any CPU write it, so its methods may be called from any goroutine, also while a reader runs.
type RingBuf struct {
	mu       sync.Mutex // rb->spinlock
	words    []uint64   // the positions
	data     []byte     // two copies, as Go memory cannot be mapped twice
	mask     uint64
	failed   atomic.Uint64
	poisoned uint64 // see Poison
	stored   func() // see Overwrite; nil: programs overwrite nothing
}

// Where words has consumer_pos and so on.
const (
	consumer = iota
	producer
	overwritten
	pending
)

// Flags in a record's length, and of its commit.
const (
	RingBufBusy      = 1 << 31 // BPF_RINGBUF_BUSY_BIT
	RingBufDiscarded = 1 << 30 // BPF_RINGBUF_DISCARD_BIT

	NoWakeup    = 1 // BPF_RB_NO_WAKEUP
	ForceWakeup = 2 // BPF_RB_FORCE_WAKEUP
)

// NewRingBuf makes an empty ring buffer of size data bytes whose positions start at start, a
// multiple of 8. The data is filled with garbage.
func NewRingBuf(size int, start uint64) *RingBuf {
	words := make([]uint64, 2*size/8)
	b := &RingBuf{
		words:    []uint64{start, start, start, start},
		data:     unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 2*size),
		mask:     uint64(size - 1),
		poisoned: start,
	}
	for i := range b.data {
		b.data[i] = 0xA5
	}
	return b
}

// Raw is the reading side.
func (b *RingBuf) Raw() *raw.Ring {
	r, err := raw.NewRingBuf(&b.words[consumer], &b.words[producer], b.data)
	if err != nil {
		panic(err)
	}
	if b.stored != nil {
		r.SetOverwritten(&b.words[overwritten], &b.words[pending])
	}
	return r
}

// Tail is consumer_pos, as the reader published it.
func (b *RingBuf) Tail() uint64 { return atomic.LoadUint64(&b.words[consumer]) }

// Head is producer_pos: how far the ring is reserved.
func (b *RingBuf) Head() uint64 { return atomic.LoadUint64(&b.words[producer]) }

// SetHead stores producer_pos, as no kernel does.
func (b *RingBuf) SetHead(h uint64) { atomic.StoreUint64(&b.words[producer], h) }

// Data is the data bytes, twice, to do damage to.
func (b *RingBuf) Data() []byte { return b.data }

// Failed is how many reservations have failed for want of room.
func (b *RingBuf) Failed() uint64 { return b.failed.Load() }

// Record is a reservation on its way, from Reserve to Commit or Discard.
type Record struct {
	ring *RingBuf
	Off  uint64 // where it begins
	n    uint32
}

// Reserve is bpf_ringbuf_reserve of n bytes: the record is busy. It fails with syscall.ENOSPC if
// the ring is too full.
func (b *RingBuf) Reserve(n int) (Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	off, size := b.Head(), uint64(8+(n+7)&^7)
	if b.stored != nil && !b.overwrite(off+size) || b.stored == nil && off+size-b.Tail() > b.mask {
		b.failed.Add(1)
		return Record{}, syscall.ENOSPC
	}
	r := Record{ring: b, Off: off, n: uint32(n)}
	b.store(off+4, uint32(off&b.mask>>12)+3) // pg_off
	b.store(off, r.n|RingBufBusy)
	b.SetHead(off + size)
	b.happened()
	return r, nil
}

// Write writes payload bytes from the at-th on.
func (r Record) Write(at int, payload []byte) {
	b := r.ring
	for i, c := range payload {
		p := (r.Off + 8 + uint64(at+i)) & b.mask
		b.data[p], b.data[p+b.mask+1] = c, c
	}
	r.ring.happened()
}

// Commit is bpf_ringbuf_submit. wake reports whether it wakes readers.
func (r Record) Commit(flags int) (wake bool) { return r.end(0, flags) }

// Discard is bpf_ringbuf_discard. wake is as that of Commit.
func (r Record) Discard(flags int) (wake bool) { return r.end(RingBufDiscarded, flags) }

// end is bpf_ringbuf_commit.
func (r Record) end(discarded uint32, flags int) (wake bool) {
	b := r.ring
	b.store(r.Off, r.n|discarded)
	caughtUp := b.Tail()&b.mask == r.Off&b.mask
	return flags&ForceWakeup != 0 || caughtUp && flags&NoWakeup == 0
}

// store stores a word of a header.
func (b *RingBuf) store(off uint64, v uint32) {
	for _, p := range [...]uint64{off & b.mask, off&b.mask + b.mask + 1} {
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&b.data[p])), v) // off is a multiple of 4
	}
	b.happened()
}

// Output is bpf_ringbuf_output: all steps at once.
func (b *RingBuf) Output(payload []byte) error {
	r, err := b.Reserve(len(payload))
	if err != nil {
		return err
	}
	r.Write(0, payload)
	r.Commit(0)
	return nil
}

// PutHeader writes a length with its flags at the head, and moves the head by advance bytes:
// damage.
func (b *RingBuf) PutHeader(length uint32, advance uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store(b.Head(), length)
	b.SetHead(b.Head() + advance)
}

// Poison fills the bytes that the reader has given back since the last call with 0xDD, which
// exposes later reads of them. Nothing may be reserved meanwhile.
func (b *RingBuf) Poison() {
	tail, head := b.Tail(), b.Head()
	if head-b.poisoned > b.mask+1 {
		b.poisoned = head - b.mask - 1 // reserved anew
	}
	for ; int64(tail-b.poisoned) > 0; b.poisoned++ { // positions wrap
		p := b.poisoned & b.mask
		b.data[p], b.data[p+b.mask+1] = 0xDD, 0xDD
	}
}

// SetHeader stores the length, with flags, of the record at an offset, as no kernel does.
func (b *RingBuf) SetHeader(off uint64, length uint32) { b.store(off, length) }

// SetTail moves consumer_pos, as only a reader does.
func (b *RingBuf) SetTail(t uint64) { atomic.StoreUint64(&b.words[consumer], t) }
