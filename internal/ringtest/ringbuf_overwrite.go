package ringtest

import (
	"sync/atomic"
	"unsafe"
)

// Overwrite makes programs overwrite the oldest records, as BPF_F_RB_OVERWRITE does. They call
// stored after each store, with the lock held in Reserve.
func (b *RingBuf) Overwrite(stored func()) { b.stored = stored }

func (b *RingBuf) happened() {
	if b.stored != nil {
		b.stored()
	}
}

// overwrite is the part of __bpf_ringbuf_reserve that makes room up to a head. It fails if that
// would take a busy record's.
func (b *RingBuf) overwrite(head uint64) bool {
	pend := b.move(pending, func(pend uint64, busy bool) bool { return pend < b.Head() && !busy })
	if head-pend > b.mask {
		return false
	}
	b.move(overwritten, func(over uint64, _ bool) bool { return head-over > b.mask })
	return true
}

// move moves a position over records while it may, and stores it.
func (b *RingBuf) move(position int, may func(at uint64, busy bool) bool) uint64 {
	at := b.words[position]
	for {
		n := atomic.LoadUint32((*uint32)(unsafe.Pointer(&b.data[at&b.mask]))) // aligned to 8
		if !may(at, n&RingBufBusy != 0) {
			break
		}
		at += uint64(8 + (n&^RingBufDiscarded+7)&^7)
	}
	atomic.StoreUint64(&b.words[position], at)
	b.happened()
	return at
}
