package merge_test

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// forever is a ceiling above all times of these tests.
const forever = 1 << 62

// all is a watermark that lets everything pass.
const all = ^uint64(0) - 1

// expected is a record that was written and must be delivered.
type expected struct {
	kind  raw.Kind
	ring  int
	off   uint64
	key   uint64 // what it is ordered by
	after uint64 // of a loss
	lost  uint64 // of a loss
	id    uint64 // of a sample's payload
	size  uint64 // of a corrupt stretch

	state struct {
		unreported bool // a loss that is in no record
		due        bool // in the round that is under way
		spilled    bool
		placed     bool // without a key: it goes with those before it
	}
}

// lane is a ring, its writer, and the plainest description of what should come out of it.
type lane struct {
	*ringtest.Ring
	raw       *raw.Ring
	max       uint64 // greatest key written
	lossAfter uint64 // where the interval of the latest report begins
	seen      uint64 // greatest key scanned
	tail      uint64 // as published last
	scanned   uint64
	advance   uint64            // losses that were added before a record has reported them
	cuts      map[uint64]uint64 // by the offset of a record of losses: what is left of it
	pending   []expected        // written and not delivered, by offset
}

// bench is a Merger under test beside a model of it.
type bench struct {
	t        testing.TB
	m        *merge.Merger
	lanes    []*lane
	timed    bool
	budget   int
	keys     map[uint64]uint64 // of payloads, by id, for those that have one; nil if times are the keys
	ids      uint64
	last     uint64 // greatest key delivered
	now      *item  // with the user, nil if none is
	id       uint64 // of its payload
	spilling bool

	written, failed, lost, delivered, late int
	corrupt, added, moved                  int // damaged; losses without a record; bytes spilled
	inversions, unknown, keyless           int // written
	found                                  merge.Found
	commits                                int
}

// setup is what a bench is made of.
type setup struct {
	rings, size int
	start       uint64 // of the rings' counters
	noTime      bool
	keyed       bool // by payload
	spill       int
}

// newBench makes n rings of size bytes whose counters start at start.
func newBench(t testing.TB, n, size int, start uint64) *bench {
	return setup{rings: n, size: size, start: start}.bench(t)
}

func (s setup) bench(t testing.TB) *bench {
	b := &bench{t: t, budget: s.spill, timed: !s.noTime}
	var raws []*raw.Ring
	layout := raw.LayoutRawTime
	if s.noTime {
		layout = raw.LayoutRaw
	}
	for range s.rings {
		w := ringtest.New(s.size, layout, s.start)
		l := &lane{Ring: w, raw: w.Raw(), tail: s.start, scanned: s.start, cuts: map[uint64]uint64{}}
		b.lanes, raws = append(b.lanes, l), append(raws, l.raw)
	}
	if s.keyed {
		b.keys = map[uint64]uint64{}
		for _, r := range raws {
			r.SetFields(0, -1)
		}
	}
	b.m = merge.New(raws, merge.Options{Spill: s.spill}, b.committed)
	return b
}

// output writes a sample of n payload bytes to ring i, if there is room.
func (b *bench) output(i int, time uint64, n int) bool {
	b.ids++
	return b.outputID(i, b.ids, time, n)
}

// outputID writes the sample of this id. Its key is what keys has of it, and its time otherwise.
func (b *bench) outputID(i int, id, time uint64, n int) bool {
	l := b.lanes[i]
	off, lost := l.Head(), l.Pending()
	if err := l.Output(time, b.payload(id, n)); err != nil {
		require.Equal(b.t, syscall.ENOSPC, err)
		b.failed++
		return false
	}
	placed := false
	key := time
	if !b.timed {
		key = 0
	}
	if b.keys != nil {
		k, ok := b.keys[id]
		switch {
		case ok && k <= forever:
			key = k
		case !b.timed:
			key, placed = l.max, true
			b.keyless++
		default:
			b.keyless++
		}
	}
	if lost > 0 {
		if b.keys != nil || !b.timed || time > l.max {
			l.lossAfter = l.max
		}
		e := expected{kind: raw.Lost, ring: i, off: off, key: key, after: min(l.lossAfter, key), lost: lost}
		e.state.placed = placed
		l.pending = append(l.pending, e)
		off += 24
		if b.timed {
			off += 8
		}
	}
	if key < l.max {
		b.inversions++
	}
	e := expected{kind: raw.Sample, ring: i, off: off, key: key, id: id}
	e.state.placed = placed
	l.pending = append(l.pending, e)
	l.max = max(l.max, key)
	b.written++
	return true
}

// keyBytes is how many bytes of a payload are in front of those of ringtest.Payload: its key.
func (b *bench) keyBytes() int {
	if b.keys == nil {
		return 0
	}
	return 8
}

func (b *bench) payload(id uint64, n int) []byte {
	if b.keys == nil {
		return ringtest.Payload(id, n)
	}
	key, ok := b.keys[id]
	if !ok {
		key = math.MaxUint64 // not to be believed
	}
	return append(binary.NativeEndian.AppendUint64(nil, key), ringtest.Payload(id, n)...)
}

func (l *lane) room() int { return len(l.Data()) - 1 - int(l.Head()-l.Tail()) }

// throttle writes a record that is not delivered.
func (b *bench) throttle(i, body int) {
	if l := b.lanes[i]; l.room() >= 8+body {
		l.Put(ringtest.TypeThrottle, make([]byte, body))
		b.unknown++
	}
}

// damage makes a stretch of n bytes that cannot be read, which must be scanned before more is
// written.
func (b *bench) damage(i, n int) {
	l := b.lanes[i]
	if l.Defer || l.room() < n {
		return
	}
	b.scan(i)
	l.pending = append(l.pending, expected{kind: raw.Corrupt, ring: i, off: l.Head(), key: l.max, size: uint64(n)})
	l.PutHeader(ringtest.TypeSample, 0, uint64(n))
	b.scan(i)
	b.corrupt++
}

// scan takes all that ring i has published into account.
func (b *bench) scan(i int) {
	l := b.lanes[i]
	from := l.scanned
	l.scanned = l.raw.Head()
	f := b.m.Scan(i, l.scanned, forever, 0)
	b.found.Inversions += f.Inversions
	b.found.Unknown += f.Unknown
	b.found.Keyless += f.Keyless
	require.Equal(b.t, l.scanned, b.m.Scanned(i))
	l.pending = slices.DeleteFunc(l.pending, func(e expected) bool { return b.see(l, e, from) })
	for j := range l.pending {
		if e := &l.pending[j]; e.off-from < l.scanned-from && e.kind == raw.Lost {
			e.lost = l.cuts[e.off]
		}
	}
	require.Equal(b.t, l.advance, b.m.Advance(i))
}

// see plays the scan of one record, if it is not below from. It reports whether the record is one of
// losses that all have been added before.
func (b *bench) see(l *lane, e expected, from uint64) bool {
	if e.off-from >= l.scanned-from {
		return false
	}
	l.seen = max(l.seen, e.key)
	if e.kind != raw.Lost {
		return false
	}
	known := min(e.lost, l.advance)
	l.advance -= known
	l.cuts[e.off] = e.lost - known
	return e.lost == known
}

func (b *bench) scanAll() {
	for i := range b.lanes {
		b.scan(i)
	}
}

// lose asks the kernel how many outputs of ring i have failed, and adds what is not known yet.
func (b *bench) lose(i int, time uint64) {
	l := b.lanes[i]
	n := l.Lost() - b.m.Reported(i)
	if n == 0 {
		return
	}
	b.m.Lose(i, n, time)
	b.added += int(n)
	l.advance += n
	require.Equal(b.t, l.Lost(), b.m.Reported(i))
	require.Equal(b.t, l.advance, b.m.Advance(i))
	e := expected{kind: raw.Lost, ring: i, off: l.scanned - 8, key: time, after: min(l.seen, time), lost: n}
	e.state.unreported = true
	at := slices.IndexFunc(l.pending, func(p expected) bool { return int64(p.off-l.scanned) >= 0 })
	if at < 0 {
		at = len(l.pending)
	}
	if at > 0 {
		if p := l.pending[at-1]; p.state.unreported && p.off == e.off && !p.state.due {
			e.lost += p.lost
			l.pending[at-1] = e
			return
		}
	}
	l.pending = slices.Insert(l.pending, at, e)
}

// due is what a round up to watermark must deliver, in order.
func (b *bench) due(watermark uint64) (due []expected) {
	for _, l := range b.lanes {
		for _, e := range l.pending {
			if int64(l.scanned-e.off) > 0 && e.key <= watermark {
				due = append(due, e)
			}
		}
	}
	slices.SortStableFunc(due, func(x, y expected) int { return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.ring, y.ring)) })
	return due
}

// begin starts a round. It returns what must come.
func (b *bench) begin(watermark uint64) []expected {
	due := b.due(watermark)
	for _, l := range b.lanes {
		for j := range l.pending {
			if e := &l.pending[j]; int64(l.scanned-e.off) > 0 && e.key <= watermark {
				e.state.due = true
			}
		}
	}
	b.m.Begin(watermark)
	return due
}

// end ends a round, whether or not all has come.
func (b *bench) end() {
	b.finish()
	b.m.End()
	for _, l := range b.lanes {
		for j := range l.pending {
			l.pending[j].state.due = false
		}
	}
}

// next takes one item and compares it with the model. It leaves the item with the user.
func (b *bench) next(want expected) {
	b.finish()
	it := next(b.m)
	if it == nil {
		b.t.Fatalf("nothing where %+v is due", want)
	}
	l := b.lanes[it.Ring]
	at := slices.IndexFunc(l.pending, func(e expected) bool { return e.off == it.Off && e.kind == it.Kind && e.key == want.key })
	if want.kind == raw.Corrupt || want.state.placed {
		want.key = max(want.key, b.last)
	}
	got := expected{kind: it.Kind, ring: it.Ring, off: it.Off, key: it.Key, id: want.id, state: want.state}
	switch it.Kind {
	case raw.Lost:
		got.after, got.lost = it.After, it.Lost
		b.lost += int(it.Lost)
	case raw.Corrupt:
		got.size = it.Size
	}
	if want != got || it.Late != (want.key < b.last) || it.Kind != raw.Corrupt && b.keys != nil && it.Time != it.Key { // not by require, which is slow
		b.t.Fatalf("got %+v, late %v; want %+v; time %d was delivered before", got, it.Late, want, b.last)
	}
	if it.Late {
		b.late++
	}
	b.last = max(b.last, it.Key)
	b.delivered++
	l.pending = slices.Delete(l.pending, at, at+1)
	b.now, b.id = it, want.id
	b.check(want.id)
}

// check verifies the payload of the item that is with the user, in place.
func (b *bench) check(id uint64) {
	if it := b.now; it.Kind == raw.Sample {
		got, err := ringtest.Check(it.Data[b.keyBytes():])
		if err != nil || got != id {
			b.t.Fatalf("payload %d is %d: %v", id, got, err)
		}
	}
}

// finish is the end of the user's function: until then the item is its own.
func (b *bench) finish() {
	if b.now != nil {
		b.check(b.id)
		b.now = nil
	}
}

// over makes sure that the round has no more, and ends it.
func (b *bench) over() {
	b.finish()
	it := next(b.m)
	require.Nil(b.t, it, "unexpected item")
	b.end()
}

// round scans, and delivers everything up to watermark.
func (b *bench) round(watermark uint64) {
	b.scanAll()
	for _, want := range b.begin(watermark) {
		b.next(want)
	}
	b.over()
	require.Equal(b.t, b.last, b.m.Last())
}

// spill copies out the oldest bytes of ring i, if there is memory for it.
func (b *bench) spill(i int) uint64 {
	b.finish()
	l := b.lanes[i]
	b.spilling = true
	bytes := b.m.Spill(i)
	b.spilling = false
	block := uint64(min(len(l.Data()), max(len(l.Data())/4, 1<<16)))
	require.LessOrEqual(b.t, b.m.Spilled(), uint64(b.budget))
	if bytes == 0 && b.m.Freed(i) != l.scanned {
		require.Greater(b.t, b.m.Spilled()+block, uint64(b.budget), "there was memory for more")
	}
	require.Equal(b.t, l.tail, b.m.Freed(i))
	b.moved += int(bytes)
	return bytes
}

// committed plays a kernel that overwrites at once what it is given back.
func (b *bench) committed(i int, bytes uint64) {
	l := b.lanes[i]
	tail := l.Tail()
	require.False(b.t, b.now != nil && b.now.Ring == i && int64(tail-b.now.Off) > 0, "the item that is with the user was given back")
	require.NotZero(b.t, bytes)
	require.Equal(b.t, bytes, tail-l.tail)
	require.LessOrEqual(b.t, bytes, uint64(len(l.Data())), "the tail went back or beyond the head")
	require.GreaterOrEqual(b.t, int64(l.scanned-tail), int64(0), "the tail is beyond what was scanned")
	for j := range l.pending {
		e := &l.pending[j]
		if int64(tail-e.off) <= 0 || e.state.unreported {
			continue
		}
		if e.state.spilled = e.state.spilled || b.spilling; !e.state.spilled {
			b.t.Fatalf("tail %#x of ring %d passed %+v, which is undelivered", tail, i, *e)
		}
	}
	for ; l.tail != tail; l.tail++ {
		l.Data()[l.tail&uint64(len(l.Data())-1)] = 0xEE
	}
	b.commits++
}

// empty makes sure that everything written has come out and all room was given back.
func (b *bench) empty() {
	unknown := 0 // losses that nothing has reported
	for i, l := range b.lanes {
		require.Empty(b.t, l.pending)
		require.Equal(b.t, l.Head(), l.Tail(), "ring %d", i)
		require.Zero(b.t, b.m.Held(i))
		require.LessOrEqual(b.t, b.m.Reported(i), l.Lost())
		unknown += int(l.Lost() - b.m.Reported(i))
		require.Equal(b.t, l.Pending(), l.Lost()-b.m.Reported(i)+b.m.Advance(i), "what the next record will report")
	}
	require.Zero(b.t, b.m.Spilled())
	_, held := b.m.Earliest()
	require.False(b.t, held)
	require.Equal(b.t, b.failed, b.lost+unknown)
	require.Equal(b.t, merge.Found{Inversions: b.inversions, Unknown: b.unknown, Keyless: b.keyless}, b.found)
}
