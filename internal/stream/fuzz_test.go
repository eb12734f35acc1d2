package stream

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// FuzzOps does random operations on rings of arbitrary bytes: it moves heads anywhere, changes held
// bytes, undoes batches, spills, loses, gives up rounds, and adds rings. The merger must end, keep
// to its budget, and deliver each record and each loss once.
//
// It drives two mergers: one takes records one by one, the other in batches. Both must deliver the
// same. Named seeds are in testdata/fuzz.
func FuzzOps(f *testing.F) {
	w := ringtest.New(128, raw.LayoutRawTime, 0)
	for _, time := range []uint64{5, 1, 4} {
		w.Output(time, ringtest.Payload(time, 12))
	}
	f.Add(w.Data(), []byte{0, 96, 3, 0, 1, 200, 2, 0, 3, 1, 4, 3, 5, 9, 1, 255})
	f.Add(w.Data(), []byte{0, 96, 0, 32, 6, 8, 1, 3, 2, 1, 3, 0, 4, 1, 7, 3, 0, 8, 3, 0, 2, 1, 5, 0, 3, 0})
	f.Add([]byte{2, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, []byte{0, 24, 4, 3, 0, 16, 3, 0, 4, 1, 1, 9, 2, 1, 4, 1, 2, 9})
	f.Add(w.Data(), []byte{0, 32, 8, 62, 0, 32, 8, 63, 0, 40, 3, 0, 8, 63, 0, 40, 3, 0, 1, 255, 2, 9, 3, 0, 2, 9})
	f.Add(w.Data(), []byte{5, 0, 5, 1, 0, 96, 0, 97, 1, 255, 7, 1, 10, 5, 7, 1, 5, 0, 7, 1, 11, 0, 2, 3, 11, 0, 9, 1, 5, 2, 0, 98, 1, 255, 2, 255})
	// Take some of a batch, then scan records earlier than it, or than the undone ones.
	w = ringtest.New(128, raw.LayoutRawTime, 0)
	for _, time := range []uint64{10, 20, 5, 7} {
		w.Put(ringtest.TypeSample, sample(time))
	}
	for _, take := range []byte{0, 1, 3} {
		f.Add(w.Data(), []byte{5, 0, 5, 1, 0, 128, 0, 129, 1, 255, 7, take, 2, 0, 11, 8, 5, 2, 0, 128, 1, 255, 2, 255})
	}
	// Ring buffers: one busy record, committed after a round.
	f.Add([]byte{8, 0, 0, 128, 0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
		[]byte{5, 0, 0, 32, 1, 255, 2, 255, 12, 0, 0, 0, 3, 0})
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 40 * seeds {
		ops := make([]byte, 100+n%5)
		for i := range ops {
			ops[i] = byte(rnd.IntN(256))
		}
		f.Add(plausible(rnd, n%5 == 0), append([]byte{5, 0, 5, 1}, ops...))
	}
	f.Fuzz(func(t *testing.T, b, ops []byte) {
		one, batches := newOps(t, len(ops)%5, 1), newOps(t, len(ops)%5, 5)
		filled := 0
		for ; len(ops) >= 2; ops = ops[2:] {
			bytes := filled
			for _, o := range []*opsSide{one, batches} {
				filled = o.do(ops[0], ops[1], b, bytes)
			}
			one.same(t, batches)
		}
		one.finish()
		batches.finish()
		one.same(t, batches)
	})
}

// plausible returns bytes of records, most of which are samples of 12 bytes.
func plausible(rnd *rand.Rand, ringBuf bool) (b []byte) {
	for range 2 * opsRing / 32 {
		typ, size := uint32(ringtest.TypeSample), uint16(32)
		switch n := rnd.IntN(20); {
		case ringBuf && n < 6:
			typ = 24 | []uint32{0, ringtest.RingBufBusy, ringtest.RingBufDiscarded}[n%3]
		case ringBuf:
			typ = 24
		case n < 2:
			typ = []uint32{ringtest.TypeLost, ringtest.TypeThrottle}[n]
		case n == 2:
			size = uint16(rnd.IntN(40) * 4)
		}
		b = binary.NativeEndian.AppendUint32(b, typ)
		b = binary.NativeEndian.AppendUint16(append(b, 0, 0), size)
		b = append(b, sample(rnd.Uint64N(1<<rnd.IntN(20)))...)
	}
	return b
}

// sample returns the bytes behind the header of a 12-byte sample.
func sample(time uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, time)
	return append(binary.NativeEndian.AppendUint32(b, 12), make([]byte, 12)...)
}

const (
	opsRing   = 1024 // bytes: tails move by eighths of it, and end batches
	opsBudget = 3 * opsRing
)

// opsSide is a merger, its rings, and its results.
type opsSide struct {
	t      *testing.T
	layout raw.Layout
	timeAt int
	ws     []writer
	m      *merger
	batch  int // batch size
	round  bool

	items          []opsItem
	last           uint64
	lost           uint64
	records, found int // non-losses delivered, and found by scans
	bound          int
	freed          []uint64 // as reported to committed
	given          bool     // held records were given up
}

type opsItem struct {
	odd  raw.Odd
	time uint64
	len  int
	ring int
	key  uint64
	late bool
	sum  uint64 // of the payload
}

func newOps(t *testing.T, options, batch int) *opsSide {
	o := &opsSide{t: t, layout: raw.LayoutRawTime, batch: min(batch, batchSize)}
	o.timeAt = -1
	if options == 4 {
		o.layout, o.timeAt = raw.LayoutRingBuf, 0
	} else if options&1 != 0 {
		o.timeAt = 4
		if options&2 != 0 {
			o.layout = raw.LayoutRaw
		}
	}
	o.m = newMerger(opsBudget, func(i int, bytes uint64) {
		o.freed[i] += bytes
		if tail := o.ws[i].Tail(); o.freed[i] != tail {
			t.Fatalf("ring %d: told of %d, but the tail is %d", i, o.freed[i], tail)
		}
	})
	for _, start := range []uint64{1<<32 - 64, ^uint64(0) - 63} {
		o.m.add(&Ring{Raw: o.ring(start)})
	}
	return o
}

func (o *opsSide) ring(start uint64) *raw.Ring {
	var w writer
	if o.layout == raw.LayoutRingBuf {
		w = ringtest.NewRingBuf(opsRing, start)
	} else {
		w = ringtest.New(opsRing, o.layout, start)
	}
	o.ws, o.freed = append(o.ws, w), append(o.freed, start)
	r := w.Raw()
	r.SetFields(o.timeAt, -1)
	return r
}

// do runs one operation, which may write bytes of b from filled on. It returns the new filled.
func (o *opsSide) do(op, arg byte, b []byte, filled int) int {
	i, v := int(arg)%len(o.ws), uint64(arg)
	w := o.ws[i]
	switch op % 14 {
	case 0:
		o.scan(i, w.Head()+v&^7)
	case 1:
		o.m.end()
		o.m.begin(v << (v % 50))
		o.round = true
	case 2:
		o.take(int(v))
		o.m.end()
		o.round = false
	case 3:
		o.m.spill(i)
	case 4:
		o.m.lose(i, v, v<<20)
		o.bound++
	case 5:
		for at := 0; len(b) > 0 && at < opsRing; {
			n := copy(w.Data()[at:], b[filled%len(b):])
			filled, at = filled+n, at+n
		}
		if o.layout == raw.LayoutRingBuf {
			copy(w.Data()[opsRing:], w.Data()[:opsRing])
		}
	case 6:
		o.scan(i, w.Head()-8*v)
		w.SetHead(w.Head() + 8*v)
	case 7:
		o.take(int(v % 4))
	case 8:
		o.scan(i, w.Head()+1<<(v%64)&^7)
	case 9:
		if v == 77 {
			o.given = true
			o.m.abandon()
			o.round = false
		}
	case 10:
		o.m.expect(i, v)
	case 11:
		if !o.round && len(o.ws) < 4 {
			o.m.add(&Ring{Raw: o.ring(8 * v)})
		}
	}
	if op%14 == 12 && o.layout == raw.LayoutRingBuf { // commit all busy records
		for at := 3; at < len(w.Data()); at += 8 {
			w.Data()[at] &= 0x7f
		}
		o.scan(i, w.Head())
	}
	if op%14 == 13 && !o.round && len(o.ws) > 1 {
		o.given = true
		o.m.remove(i)
		o.ws, o.freed = slices.Delete(o.ws, i, i+1), slices.Delete(o.freed, i, i+1)
	}
	if o.m.spilled() > opsBudget {
		o.t.Fatalf("%d bytes spilled", o.m.spilled())
	}
	return filled
}

// scan moves a head, and compares the merger's findings with Parse.
func (o *opsSide) scan(i int, head uint64) {
	w := o.ws[i]
	w.SetHead(head)
	from, r := o.m.rings[i].scan, w.Raw()
	o.m.rings[i].scanTo(head, 1<<60, 0)
	o.bound += opsRing/8 + 2
	if o.m.rings[i].scan != head {
		if o.m.rings[i].scan != from || int64(head-from) > 0 && head-w.Tail() < 1<<61 && o.m.spilled() == 0 {
			o.t.Fatalf("ring %d: scanned from %d to %d, not to %d", i, from, o.m.rings[i].scan, head)
		}
		return // it went back, or far ahead
	}
	for rec := (raw.Record{}); from != head; from += rec.Size {
		if r.Parse(from, head, &rec); rec.Kind == raw.Sample || rec.Kind == raw.Corrupt {
			o.found++
		}
	}
}

// take takes n items, if there are as many.
func (o *opsSide) take(n int) {
	evs, rings := make([]raw.Event, o.batch), make([]int, o.batch)
	if n == 0 { // look, but take nothing
		got := o.m.batch(evs, rings)
		o.m.undo(rings[:got], 0)
	}
	for n > 0 {
		got := o.m.batch(evs, rings)
		if got == 0 {
			it := o.m.next()
			if it == nil {
				return
			}
			o.add(it.event, it.ring, it.key)
			n--
			continue
		}
		use := min(got, n)
		for j := range use {
			o.add(evs[j], rings[j], evs[j].Time())
		}
		o.m.undo(rings[:got], use)
		n -= use
	}
}

func (o *opsSide) add(ev raw.Event, ring int, key uint64) {
	it := opsItem{odd: *ev.Odd(), time: ev.Time(), len: ev.Len(), ring: ring, key: key, late: ev.Late()}
	if it.late != (it.key < o.last) {
		o.t.Fatalf("%+v after %d", it, o.last)
	}
	o.last = max(o.last, it.key)
	switch ev.Kind() {
	case raw.Lost:
		o.lost += it.odd.Lost
	case raw.Sample:
		if ev.Len() > opsRing {
			o.t.Fatalf("payload of %d bytes", ev.Len())
		}
		for _, c := range ev.Bytes() {
			it.sum = it.sum*31 + uint64(c)
		}
		fallthrough
	case raw.Corrupt:
		o.records++
	default:
		o.t.Fatalf("%+v", it)
	}
	o.items = append(o.items, it)
	if len(o.items) > o.bound {
		o.t.Fatalf("more than %d items", o.bound)
	}
}

// finish takes all remaining items.
func (o *opsSide) finish() {
	o.m.end()
	o.m.begin(all)
	o.take(o.bound + 1)
	o.m.end()
	t := o.t
	if o.m.spilled() != 0 {
		t.Fatalf("%d bytes are not given back", o.m.spilled())
	}
	if key, held := o.m.earliest(); held {
		t.Fatalf("something of time %d is held in empty rings", key)
	}
	reported := uint64(0)
	for i := range o.ws {
		busy := len(o.m.rings[i].busy) > 0
		if o.m.rings[i].samples() != 0 || busy != (o.m.rings[i].freed != o.m.rings[i].scan) || o.freed[i] != o.m.rings[i].freed {
			t.Fatalf("ring %d: %d held, %d bytes are not given back", i, o.m.rings[i].samples(), o.m.rings[i].scan-o.m.rings[i].freed)
		}
		reported += o.m.reported(i)
	}
	if !o.given && (o.records != o.found && o.layout != raw.LayoutRingBuf || o.lost != reported) {
		t.Fatalf("%d of %d records, %d of %d losses delivered", o.records, o.found, o.lost, reported)
	}
}

// same requires that both have delivered the same and hold the same.
func (o *opsSide) same(t *testing.T, p *opsSide) {
	if len(o.items) != len(p.items) {
		t.Fatalf("%d items one by one, %d in batches", len(o.items), len(p.items))
	}
	for i := range o.items {
		if o.items[i] != p.items[i] {
			t.Fatalf("item %d is %+v, in batches %+v", i, o.items[i], p.items[i])
		}
	}
	o.items, p.items = o.items[:0], p.items[:0]
	for i := range o.ws {
		if o.m.rings[i].samples() != p.m.rings[i].samples() || o.m.rings[i].scan != p.m.rings[i].scan || o.m.reported(i) != p.m.reported(i) || len(o.m.rings[i].busy) != len(p.m.rings[i].busy) || o.m.advance(i) != p.m.advance(i) {
			t.Fatalf("ring %d: %d held, scanned to %d; in batches %d, to %d", i, o.m.rings[i].samples(), o.m.rings[i].scan, p.m.rings[i].samples(), p.m.rings[i].scan)
		}
	}
}
