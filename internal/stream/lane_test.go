package stream

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// rec is a record of a lane, or a loss that no record reports, and its fate.
type rec struct {
	lane    *lane
	kind    raw.Kind // raw.Busy until it is committed or discarded
	off     uint64
	size    uint64 // of a corrupt stretch
	time    uint64 // the record's own, if the layout has one
	key     uint64 // the sort key
	keyless bool   // its payload has no credible key
	placed  bool   // it has no credible time either, and goes with those before it
	lost    uint64 // of a loss, minus those known before
	after   uint64 // of a loss
	payload []byte
	handle  ringtest.Record // in a ring buffer

	reserved   uint64 // clock reading of the last scan before it was reserved
	foundBusy  bool   // by a scan
	before     uint64 // the greatest key before it, when it was found busy
	seen       bool   // a scan has taken it into account
	unreported bool   // it is a loss that no record reports
	due        bool   // in the round that is under way
	spilled    bool
	done       bool // delivered, or nothing to deliver
}

// writer is a ringtest.Ring or a ringtest.RingBuf.
type writer interface {
	Raw() *raw.Ring
	Data() []byte
	Head() uint64
	SetHead(uint64)
	Tail() uint64
	Poison()
}

// lane is a ring with its writer, and a simple model of its output.
type lane struct {
	writer
	perf *ringtest.Ring    // nil for a ring buffer
	buf  *ringtest.RingBuf // nil for a perf ring
	raw  *raw.Ring
	at   int // index in the merger
	kind laneKind
	recs []*rec // by offset

	max       uint64 // greatest key scanned in order
	lossAfter uint64 // where the interval of the latest report of losses begins
	looked    uint64 // clock reading of the last scan
	scanned   uint64
	tail      uint64 // as last published
	advance   uint64 // losses added that no record has reported yet
	failed    int    // outputs
	lost      int    // delivered losses

	taken      []uint64 // times taken by programs that have not written yet
	quietUntil uint64
}

// laneKind says how a lane's records get their keys: by their own times, unless it says otherwise.
type laneKind struct {
	buffer bool // a ring buffer, whose payloads begin with their keys
	keyed  bool // a perf ring whose payloads begin with their keys
	noTime bool // a perf ring whose records have no time
}

// bench is a merger under test next to a model of it.
type bench struct {
	t      testing.TB
	m      *merger
	lanes  []*lane
	budget int
	clock  uint64

	ids      uint64
	last     uint64    // greatest key delivered
	floor    uint64    // a lesser key is late
	now      *delivery // the item that the user holds, nil if none
	nowRec   *rec
	spilling bool
	counts
}

// counts lets a test check that a bench has covered each case.
type counts struct {
	delivered, late, lost, added, corrupt, inversions, unknown, keyless int
	discarded, foundBusy, behindBusy, spilled, commits, removed         int
}

// setup configures a bench.
type setup struct {
	rings, size int
	start       uint64 // of the rings' counters
	kind        laneKind
	spill       int
}

func (s setup) bench(t testing.TB) *bench {
	b := &bench{t: t, budget: s.spill}
	b.m = newMerger(s.spill, b.committed)
	for range s.rings {
		b.add(s.kind, s.size, s.start)
	}
	return b
}

// newBench makes n perf rings of size bytes whose counters start at start.
func newBench(t testing.TB, n, size int, start uint64) *bench {
	return setup{rings: n, size: size, start: start}.bench(t)
}

func (b *bench) add(kind laneKind, size int, start uint64) *lane {
	l := &lane{kind: kind, at: len(b.lanes), scanned: start, tail: start}
	switch {
	case kind.buffer:
		l.buf = ringtest.NewRingBuf(size, start)
		l.writer = l.buf
	case kind.noTime:
		l.perf = ringtest.New(size, raw.LayoutRaw, start)
		l.writer = l.perf
	default:
		l.perf = ringtest.New(size, raw.LayoutRawTime, start)
		l.writer = l.perf
	}
	l.raw = l.Raw()
	l.raw.SetCPU(7 + l.at)
	if kind.buffer || kind.keyed {
		l.raw.SetFields(0, -1)
	}
	b.lanes = append(b.lanes, l)
	b.m.add(&Ring{Raw: l.raw})
	return l
}

// noKey is a key that is never credible.
const noKey uint64 = math.MaxUint64

var pattern = func() []byte {
	p := make([]byte, 1<<17)
	rnd := rand.NewChaCha8([32]byte{1})
	rnd.Read(p)
	return p
}()

// payload makes n bytes, with a key first if there is room for it.
func (b *bench) payload(key uint64, n int) []byte {
	b.ids++
	p := binary.NativeEndian.AppendUint64(make([]byte, 0, n+8), key)
	return append(p, pattern[b.ids*8%4096:][:n]...)[:n]
}

// output writes a sample of n payload bytes to perf ring i, if there is room.
func (b *bench) output(i int, time uint64, n int) bool { return b.outputKey(i, time, noKey, n) }

// outputKey writes a sample whose payload begins with a key, which matters in keyed rings only.
func (b *bench) outputKey(i int, time, key uint64, n int) bool {
	l := b.lanes[i]
	off, lost := l.Head(), l.perf.Pending()
	p := b.payload(key, n)
	if err := l.perf.Output(time, p); err != nil {
		require.Equal(b.t, syscall.ENOSPC, err)
		l.failed++
		return false
	}
	r := &rec{lane: l, kind: raw.Sample, time: time, key: time, payload: p}
	switch {
	case l.kind.keyed && key <= forever:
		r.key = key
	case l.kind.keyed:
		r.keyless, r.placed = true, l.kind.noTime
	case l.kind.noTime:
		r.key = 0
	}
	if lost > 0 {
		l.recs = append(l.recs, &rec{
			lane: l, kind: raw.Lost, off: off, time: time, key: r.key, placed: r.placed, lost: lost,
		})
		off += 32
		if l.kind.noTime {
			off -= 8
		}
	}
	r.off = off
	l.recs = append(l.recs, r)
	return true
}

// reserve begins a record of n payload bytes in ring buffer i. It returns nil if there is no room.
func (b *bench) reserve(i int, key uint64, n int) *rec {
	l := b.lanes[i]
	h, err := l.buf.Reserve(n)
	if err != nil {
		return nil
	}
	r := &rec{
		lane: l, kind: raw.Busy, off: h.Off, key: key, payload: b.payload(key, n), handle: h,
		reserved: l.looked, keyless: n < 8, placed: n < 8,
	}
	l.recs = append(l.recs, r)
	return r
}

func (r *rec) commit() {
	r.handle.Write(0, r.payload)
	r.handle.Commit(0)
	r.kind = raw.Sample
}

func (r *rec) discard() {
	r.handle.Discard(0)
	r.kind = raw.Discarded
}

func (l *lane) room() int { return int(l.raw.Size()) - 1 - int(l.Head()-l.Tail()) }

// throttle writes a record that is not delivered.
func (b *bench) throttle(i, body int) {
	if l := b.lanes[i]; l.room() >= 8+body {
		l.recs = append(l.recs, &rec{lane: l, kind: raw.Unknown, off: l.Head()})
		l.perf.Put(ringtest.TypeThrottle, make([]byte, body))
	}
}

// damage makes a stretch of n unreadable bytes. It scans before and after, as the stretch ends at
// the head.
func (b *bench) damage(i, n int) {
	l := b.lanes[i]
	if l.perf.Defer || l.room() < n {
		return
	}
	b.scan(i)
	l.recs = append(l.recs, &rec{lane: l, kind: raw.Corrupt, off: l.Head(), size: uint64(n), placed: true})
	l.perf.PutHeader(ringtest.TypeSample, 0, uint64(n))
	b.scan(i)
	b.corrupt++
}

func (r *rec) String() string {
	return fmt.Sprintf("kind %d at %#x of ring %d, key %d, size %d, %d lost after %d", r.kind, r.off, r.lane.at, r.key, r.size, r.lost, r.after)
}

func (r *rec) isOpen() bool { return r.kind == raw.Busy }
