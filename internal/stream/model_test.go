package stream

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
)

// scan scans all that ring i has published.
func (b *bench) scan(i int) {
	l := b.lanes[i]
	head, want := l.raw.Head(), findings{}
	for _, again := range []bool{true, false} { // busy ones of earlier scans first
		for _, r := range l.recs {
			if r.foundBusy == again && !r.seen && !r.done && int64(head-r.off) > 0 {
				l.see(r, &want)
			}
		}
	}
	require.Equal(b.t, want, b.m.rings[i].scanTo(head, forever, b.clock))
	l.scanned, l.looked = head, b.clock
	b.inversions += want.inversions
	b.unknown += want.unknown
	b.keyless += want.keyless
	b.discarded += want.discarded

	held, busy, bound := 0, 0, l.looked
	for _, r := range l.recs {
		switch {
		case r.done || r.unreported:
		case r.seen && r.kind == raw.Sample:
			held++
			b.behindBusy += min(busy, 1)
		case r.foundBusy && !r.seen:
			busy++
			bound = min(bound, r.reserved)
		}
	}
	got := []any{b.m.rings[i].samples(), len(b.m.rings[i].busy), b.m.rings[i].stampedUpTo(), b.m.advance(i), b.m.rings[i].scan}
	require.Equal(b.t, []any{held, busy, bound, l.advance, l.scanned}, got)
}

// see models the scan of one record.
func (l *lane) see(r *rec, found *findings) {
	before := l.max
	if r.foundBusy {
		before = r.before
	}
	if r.placed {
		r.key = l.max
	}
	switch r.kind {
	case raw.Busy:
		r.foundBusy, r.before = true, before
		return
	case raw.Discarded, raw.Unknown:
		if r.done = true; r.kind == raw.Unknown {
			found.unknown++
		} else {
			found.discarded++
		}
		return
	case raw.Lost:
		known := min(r.lost, l.advance)
		l.advance, r.lost = l.advance-known, r.lost-known
		if l.kind.keyed || l.kind.noTime || r.time > l.max {
			l.lossAfter = l.max
		}
		r.after, r.done = min(l.lossAfter, r.key), r.lost == 0
	case raw.Sample:
		if r.keyless {
			found.keyless++
			found.bad++
		}
		if r.key < before {
			found.inversions++
		}
	}
	r.seen = true
	if !r.foundBusy {
		l.max = max(l.max, r.key)
	}
}

func (b *bench) scanAll() {
	for i := range b.lanes {
		b.scan(i)
	}
}

// lose asks the kernel for its count of failed outputs of ring i, and adds the unknown ones.
func (b *bench) lose(i int, time uint64) {
	l := b.lanes[i]
	if l.perf == nil || l.perf.Lost() == b.m.reported(i) {
		return
	}
	n := l.perf.Lost() - b.m.reported(i)
	b.m.lose(i, n, time)
	b.added += int(n)
	l.advance += n
	require.Equal(b.t, []uint64{l.perf.Lost(), l.advance}, []uint64{b.m.reported(i), b.m.advance(i)})
	r := &rec{
		lane: l, kind: raw.Lost, off: l.scanned - 8, key: time, after: min(l.max, time), lost: n,
		seen: true, unreported: true,
	}
	l.forget()
	at := slices.IndexFunc(l.recs, func(p *rec) bool { return int64(p.off-l.scanned) >= 0 })
	if at < 0 {
		at = len(l.recs)
	}
	if at > 0 { // one more before the first was delivered
		if p := l.recs[at-1]; p.unreported && p.off == r.off && !p.due {
			r.lost += p.lost
			l.recs[at-1] = r
			return
		}
	}
	l.recs = slices.Insert(l.recs, at, r)
}

func (l *lane) forget() {
	l.recs = slices.DeleteFunc(l.recs, func(r *rec) bool { return r.done })
}

// begin starts a round. It returns the expected records.
func (b *bench) begin(watermark uint64) (due []*rec) {
	for _, l := range b.lanes {
		for _, r := range l.recs {
			if r.seen && !r.done && r.key <= watermark {
				r.due = true
				due = append(due, r)
			}
		}
	}
	slices.SortStableFunc(due, func(x, y *rec) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.lane.at, y.lane.at))
	})
	b.m.begin(watermark)
	return due
}

// next takes one item and compares it with the model. The user holds it until the next call.
func (b *bench) next(want *rec) {
	b.finish()
	it := next(b.m)
	if it == nil {
		b.t.Fatalf("nothing where %+v is due", want)
	}
	l, key, fault := want.lane, want.key, raw.FaultNone
	if want.placed {
		key = max(key, b.last)
	}
	if want.kind == raw.Corrupt {
		fault = raw.FaultZero
	}
	late := uint64(0)
	if least := max(b.last, b.floor); !want.placed && key < least {
		late = least - key
	}
	switch o := it.Odd; { // require is slow
	case it.Ring != l.at, it.Kind != want.kind, it.Off != want.off, it.Key != key, it.Time != key, it.Late != (late > 0), it.Lateness != late,
		it.CPU != l.raw.CPU(), o.After != want.after, o.Lost != want.lost, o.Fault != fault, fault != 0 && it.Size != want.size:
		b.t.Fatalf("got %+v, late %v, of ring %d; want %v with key %d, late by %d", it.Odd, it.Late, it.Ring, want, key, late)
	}
	if late > 0 {
		b.late++
	}
	if want.foundBusy {
		b.foundBusy++
	}
	b.last = max(b.last, key)
	b.delivered++
	b.lost += int(want.lost)
	l.lost += int(want.lost)
	want.done = true
	b.now, b.nowRec = it, want
	b.check()
}

// check verifies the payload of the user's item, in place.
func (b *bench) check() {
	got, want := b.now.Data, b.nowRec.payload
	padding := 0
	if b.nowRec.kind == raw.Sample && b.nowRec.lane.perf != nil {
		padding = 7
	}
	if more := len(got) - len(want); more < 0 || more > padding || !bytes.Equal(got[:len(want)], want) {
		b.t.Fatalf("got % x of %v", got[:min(len(got), 32)], b.nowRec)
	}
}

// finish ends the user's hold on its item.
func (b *bench) finish() {
	if b.now != nil {
		b.check()
		b.now = nil
	}
}

// complete declares that nothing up to a key is missing.
func (b *bench) complete(upTo uint64) {
	b.m.complete(upTo)
	b.floor = max(b.floor, upTo+1)
}

// end ends a round, even before all is delivered.
func (b *bench) end() {
	b.finish()
	b.m.end()
	earliest, latest := noKey, uint64(0)
	for _, l := range b.lanes {
		l.forget()
		latest = max(latest, l.max)
		for _, r := range l.recs {
			if r.due = false; r.seen {
				earliest, latest = min(earliest, r.key), max(latest, r.key)
			}
		}
	}
	key, held := b.m.earliest()
	require.Equal(b.t, []any{earliest, earliest != noKey}, []any{key, held})
	require.Equal(b.t, []uint64{latest, b.last}, []uint64{b.m.latest(), b.m.last})
}

// over makes sure that the round has no more, and ends it.
func (b *bench) over() {
	b.finish()
	require.Nil(b.t, next(b.m), "unexpected item")
	b.end()
}

// round scans, and delivers everything up to watermark.
func (b *bench) round(watermark uint64) {
	b.scanAll()
	for _, want := range b.begin(watermark) {
		b.next(want)
	}
	b.over()
}

// spill copies out the oldest bytes of ring i, if there is memory for it.
func (b *bench) spill(i int) uint64 {
	b.finish()
	l := b.lanes[i]
	b.spilling = true
	bytes := b.m.spill(i)
	b.spilling = false
	block := min(l.raw.Size(), max(l.raw.Size()/4, 1<<16))
	require.LessOrEqual(b.t, b.m.spilled(), uint64(b.budget))
	if bytes == 0 && b.m.rings[i].freed != l.settled() {
		require.Greater(b.t, b.m.spilled()+block, uint64(b.budget), "there was memory for more")
	}
	require.Equal(b.t, l.tail, b.m.rings[i].freed)
	b.spilled += int(bytes)
	return bytes
}

// settled returns where the first busy record of the last scan begins, or where that scan ended.
func (l *lane) settled() uint64 {
	for _, r := range l.recs {
		if r.foundBusy && !r.seen && !r.done {
			return r.off
		}
	}
	return l.scanned
}

// giveBack moves a tail up to the first record that is busy, or held and not copied out.
func (b *bench) giveBack(i int) {
	b.finish()
	l := b.lanes[i]
	b.m.giveBack(i)
	want := l.settled()
	for _, r := range l.recs {
		if !r.done && !r.unreported && !r.spilled && int64(r.off-want) < 0 {
			want = r.off
		}
	}
	require.Equal(b.t, []any{want, want == l.settled()}, []any{l.Tail(), b.m.rings[i].freed == b.m.rings[i].settled()})
}

// remove takes ring i out. Records behind a busy one are not given up.
func (b *bench) remove(i int) {
	b.finish()
	l, dropped := b.lanes[i], uint64(0)
	for _, r := range l.recs {
		if r.seen && !r.done && r.kind == raw.Sample && int64(l.settled()-r.off) > 0 {
			dropped++
		}
	}
	settled := l.settled()
	l.recs = nil
	require.Equal(b.t, dropped, b.m.remove(i))
	require.Equal(b.t, settled, l.Tail())
	b.lanes = slices.Delete(b.lanes, i, i+1)
	for i, l := range b.lanes {
		l.at = i
	}
	b.removed++
}

// committed models a kernel that overwrites freed bytes at once.
func (b *bench) committed(i int, bytes uint64) {
	l, tail := b.lanes[i], b.lanes[i].Tail()
	require.NotZero(b.t, bytes)
	require.Equal(b.t, bytes, tail-l.tail)
	require.LessOrEqual(b.t, bytes, l.raw.Size(), "the tail went back or beyond the head")
	require.GreaterOrEqual(b.t, int64(l.scanned-tail), int64(0), "the tail is beyond what was scanned")
	for _, r := range l.recs {
		if r.done || r.unreported || int64(tail-r.off) <= 0 {
			continue
		}
		if r.spilled = r.spilled || b.spilling && r.seen; !r.spilled {
			b.t.Fatalf("tail %#x of ring %d passed %v, which is undelivered", tail, i, r)
		}
	}
	l.tail = tail
	l.Poison()
	b.commits++
}

// empty requires that all records have come out and all bytes are free.
func (b *bench) empty() {
	for i, l := range b.lanes {
		require.Empty(b.t, l.recs)
		require.Equal(b.t, l.Head(), l.Tail(), "ring %d", i)
		if l.perf == nil {
			continue
		}
		require.LessOrEqual(b.t, b.m.reported(i), l.perf.Lost())
		unknown := l.perf.Lost() - b.m.reported(i)
		require.Equal(b.t, l.failed, l.lost+int(unknown))
		require.Equal(b.t, l.perf.Pending(), unknown+b.m.advance(i), "what the next record will report")
	}
	require.Zero(b.t, b.m.spilled())
}
