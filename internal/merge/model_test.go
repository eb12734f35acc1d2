package merge_test

import (
	"cmp"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// forever is a ceiling above all times of these tests.
const forever = 1 << 62

// all is a watermark that lets everything pass.
const all = ^uint64(0) - 1

// someBound stands for the lower bound of a loss that is out of order: any that is not above its time.
const someBound = ^uint64(0)

// expected is a record that was written and must be delivered.
type expected struct {
	kind  raw.Kind
	ring  int
	off   uint64
	key   uint64 // what it is ordered by
	after uint64 // of a loss
	lost  uint64 // of a loss
	id    uint64 // of a sample's payload
}

// lane is a ring, its writer, and the plainest description of what should come out of it.
type lane struct {
	*ringtest.Ring
	raw     *raw.Ring
	max     uint64 // greatest time written
	tail    uint64 // as published last
	scanned uint64
	pending []expected // written and not delivered, by offset
}

// bench is a Merger under test beside a model of it.
type bench struct {
	t     testing.TB
	m     *merge.Merger
	lanes []*lane
	ids   uint64
	last  uint64      // greatest key delivered
	now   *merge.Item // with the user, nil if none is
	id    uint64      // of its payload

	written, failed, lost, delivered, late int
	inversions, unknown                    int // written
	found                                  merge.Found
	commits                                int
}

// newBench makes n rings of size bytes whose counters start at start.
func newBench(t testing.TB, n, size int, start uint64) *bench {
	b := &bench{t: t}
	var raws []*raw.Ring
	for range n {
		w := ringtest.New(size, raw.LayoutRawTime, start)
		l := &lane{Ring: w, raw: w.Raw(), tail: start, scanned: start}
		b.lanes, raws = append(b.lanes, l), append(raws, l.raw)
	}
	b.m = merge.New(raws, merge.Options{}, b.committed)
	return b
}

// output writes a sample of n payload bytes to ring i, if there is room.
func (b *bench) output(i int, time uint64, n int) bool {
	l := b.lanes[i]
	off, lost := l.Head(), l.Pending()
	b.ids++
	if err := l.Output(time, ringtest.Payload(b.ids, n)); err != nil {
		require.Equal(b.t, syscall.ENOSPC, err)
		b.failed++
		return false
	}
	if lost > 0 {
		after := l.max
		if time < l.max {
			after = someBound
		}
		l.pending = append(l.pending, expected{kind: raw.Lost, ring: i, off: off, key: time, after: after, lost: lost})
		off += 32
	}
	if time < l.max {
		b.inversions++
	}
	l.pending = append(l.pending, expected{kind: raw.Sample, ring: i, off: off, key: time, id: b.ids})
	l.max = max(l.max, time)
	b.written++
	return true
}

// throttle writes a record that is not delivered.
func (b *bench) throttle(i, body int) {
	if l := b.lanes[i]; len(l.Data())-1-int(l.Head()-l.Tail()) >= 8+body {
		l.Put(ringtest.TypeThrottle, make([]byte, body))
		b.unknown++
	}
}

// scan takes all that ring i has published into account.
func (b *bench) scan(i int) {
	l := b.lanes[i]
	l.scanned = l.raw.Head()
	f := b.m.Scan(i, l.scanned, forever)
	b.found.Inversions += f.Inversions
	b.found.Unknown += f.Unknown
	require.Equal(b.t, l.scanned, b.m.Scanned(i))
}

func (b *bench) scanAll() {
	for i := range b.lanes {
		b.scan(i)
	}
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

// next takes one item and compares it with the model. It leaves the item with the user.
func (b *bench) next(want expected) {
	b.finish()
	it := b.m.Next()
	require.NotNil(b.t, it, "nothing where %+v is due", want)
	got := expected{kind: it.Kind, ring: it.Ring, off: it.Off, key: it.Key, id: want.id}
	if it.Kind == raw.Lost {
		got.after, got.lost = it.After, it.Lost
		if want.after == someBound && it.After <= it.Time {
			got.after = someBound
		}
		b.lost += int(it.Lost)
	}
	if want != got || it.Late != (want.key < b.last) { // not by require, which is slow
		b.t.Fatalf("got %+v, late %v; want %+v; time %d was delivered before", got, it.Late, want, b.last)
	}
	if it.Late {
		b.late++
	}
	b.last = max(b.last, it.Key)
	b.delivered++
	l := b.lanes[it.Ring]
	at := slices.IndexFunc(l.pending, func(e expected) bool { return e.off == it.Off })
	l.pending = slices.Delete(l.pending, at, at+1)
	b.now, b.id = it, want.id
	b.check(want.id)
}

// check verifies the payload of the item that is with the user, in place.
func (b *bench) check(id uint64) {
	if it := b.now; it.Kind == raw.Sample {
		p := append([]byte(nil), unsafe.Slice((*byte)(it.Data), it.First)...)
		p = append(p, unsafe.Slice((*byte)(b.lanes[it.Ring].raw.Base()), it.Len-it.First)...)
		got, err := ringtest.Check(p)
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
	it := b.m.Next()
	require.Nil(b.t, it, "unexpected item")
	b.m.End()
}

// round scans, and delivers everything up to watermark.
func (b *bench) round(watermark uint64) {
	b.scanAll()
	due := b.due(watermark)
	b.m.Begin(watermark)
	for _, want := range due {
		b.next(want)
	}
	b.over()
	require.Equal(b.t, b.last, b.m.Last())
}

// committed plays a kernel that overwrites at once what it is given back.
func (b *bench) committed(i int, bytes uint64) {
	l := b.lanes[i]
	tail := l.Tail()
	require.False(b.t, b.now != nil && b.now.Ring == i && int64(tail-b.now.Off) > 0, "the item that is with the user was given back")
	require.NotZero(b.t, bytes)
	require.Equal(b.t, bytes, tail-l.tail)
	require.LessOrEqual(b.t, bytes, uint64(len(l.Data())), "the tail went back or beyond the head")
	for _, e := range l.pending {
		if int64(tail-e.off) > 0 {
			b.t.Fatalf("tail %#x of ring %d passed %+v, which is undelivered", tail, i, e)
		}
	}
	for ; l.tail != tail; l.tail++ {
		l.Data()[l.tail&uint64(len(l.Data())-1)] = 0xEE
	}
	b.commits++
}

// empty makes sure that everything written has come out and all room was given back.
func (b *bench) empty() {
	for i, l := range b.lanes {
		require.Empty(b.t, l.pending)
		require.Equal(b.t, l.Head(), l.Tail(), "ring %d", i)
	}
	_, held := b.m.Earliest()
	require.False(b.t, held)
	pending := 0
	for _, l := range b.lanes {
		pending += int(l.Pending())
	}
	require.Equal(b.t, b.failed, b.lost+pending)
	require.Equal(b.t, merge.Found{Inversions: b.inversions, Unknown: b.unknown}, b.found)
}
