package merge

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ringfold/ringfold/internal/raw"
)

// A ring is nearly sorted: interrupts nest, so about one record in 10^5 lies behind one with a later
// time. The main run is the records whose key is not below that of any before them; the others, the
// early ones, are few. Both are kept in order, so that a round begins with sorted runs.
type ring struct {
	raw    *raw.Ring
	view   *raw.View // of its events
	timeAt int       // of raw: offset of the key in a payload; below 0: the key is the record's time
	eighth uint64    // of the ring's size

	freed uint64 // data_tail as published
	tryAt uint64 // free what was delivered when the delivery comes to this offset
	scan  uint64 // all records below are checked; the next scan goes on here
	max   uint64 // greatest key in the main run so far

	main  queue[raw.Mark] // undelivered, by key and by offset
	early queue[raw.Mark] // undelivered, by key, then offset
	odd   queue[raw.Odd]  // of those in main and early that are no samples, by offset
	// How many of main and of early this round has still to deliver. What a scan adds meanwhile
	// comes behind.
	dueMain, dueEarly int
	roundEnd          uint64 // scan, when the round began
	plain             bool   // what is due is samples of the main run only, and in the ring

	reported  uint64 // losses known
	advance   uint64 // of these, how many no record has reported yet
	lossAfter uint64 // no loss of the latest report is from before this time

	chunks []*chunk // copied out and not delivered, oldest first
	from   *chunk   // of the item that is with the caller, nil if it is in the ring

	rec raw.Record // scratch of scanTo
}

// Flags in the Off of a Mark, and of an Odd, as offsets are multiples of 8. isOdd sends to ring.odd; unreported is a
// loss that is in no record. It lies between what was scanned before and after. placed is what has no
// key of its own and goes with the records before it: it cannot be late.
const (
	isOdd      = 1
	unreported = 2
	placed     = 4
	flags      = 7
)

// farthest is less than what offsets may be apart that are compared by their difference.
const farthest = 1 << 62

// oldest is an offset that is not above that of any undelivered record.
func (r *ring) oldest() uint64 {
	if len(r.chunks) > 0 {
		return r.chunks[0].start
	}
	return r.freed
}

// ahead is how many bytes a scan to head would check: none if the head went back or far ahead. None of
// the kernel's does, and the next is right.
func (r *ring) ahead(head uint64) uint64 {
	if n := head - r.scan; int64(n) > 0 && head-r.oldest() < farthest {
		return n
	}
	return 0
}

// scanTo checks the records from scan to head. A time later than ceiling, which is ahead of every
// honest clock, makes a record corrupt: waiting for its turn would hold the ring back for ever.
func (r *ring) scanTo(head, ceiling uint64) (found Found) {
	if r.ahead(head) == 0 {
		return found
	}
	r.main.compact()
	var loss raw.Odd // waits for the sample that reports it, and goes before it
	for r.scan != head {
		if r.timeAt < 0 && loss.Lost == 0 {
			n := len(r.main.buf)
			r.main.buf, r.scan = r.raw.Samples(r.scan, head, r.max, ceiling, r.main.buf)
			if all := r.main.buf; len(all) > n {
				r.max = all[len(all)-1].Time
			}
			if r.scan == head {
				break
			}
		}
		rec, off := &r.rec, r.scan
		r.raw.Parse(off, head, rec)
		r.scan += rec.Size
		if loss.Lost != 0 && rec.Kind != raw.Sample {
			r.addPlaced(loss) // cut off from its sample: memory is damaged
			loss.Lost = 0
		}
		switch rec.Kind {
		case raw.Corrupt:
			r.addPlaced(raw.Odd{Off: off, Size: rec.Size, Kind: raw.Corrupt, Fault: rec.Fault})
		case raw.Unknown:
			found.Unknown++
		case raw.Lost:
			known := min(rec.Lost, r.advance)
			r.advance -= known
			r.reported += rec.Lost - known
			// An output that has looked for losses and not reported them can be interrupted by one that
			// does. That lies behind it with an earlier time, and its losses are from before both.
			if r.timeAt >= 0 || rec.Time > r.max {
				r.lossAfter = r.max
			}
			loss = raw.Odd{Off: off, Size: rec.Size, Kind: raw.Lost, Lost: rec.Lost - known, After: r.lossAfter}
		case raw.Sample:
			key, flag := r.keyOf(rec, ceiling, &found)
			bad := key > ceiling
			if bad {
				key, flag = r.max, placed
			}
			if loss.Lost != 0 {
				r.addOdd(loss, key, flag)
				loss.Lost = 0
			}
			if bad {
				r.addPlaced(raw.Odd{Off: off, Size: rec.Size, Kind: raw.Corrupt, Fault: raw.FaultTime})
				continue
			}
			if key < r.max {
				found.Inversions++
			}
			r.add(raw.Mark{Time: key, Off: off | flag})
		}
	}
	if loss.Lost != 0 {
		r.addPlaced(loss)
	}
	return found
}

// keyOf returns what a sample is ordered by, above ceiling if that cannot be believed, and the flag
// of those that have no key.
func (r *ring) keyOf(rec *raw.Record, ceiling uint64, found *Found) (key, flag uint64) {
	if r.timeAt < 0 {
		return rec.Time, 0
	}
	if key, ok := r.raw.Payload8(rec, r.timeAt); ok && key <= ceiling {
		return key, 0
	}
	found.Keyless++
	if rec.Time == 0 {
		return r.max, placed
	}
	return rec.Time, 0
}

func (r *ring) addPlaced(o raw.Odd) { r.addOdd(o, r.max, placed) }

func (r *ring) addOdd(o raw.Odd, key, flag uint64) {
	o.Off |= isOdd | flag
	r.odd.push(o)
	r.add(raw.Mark{Time: key, Off: o.Off})
}

// add takes a record into the main run, or, if its key is below that of one before, to the early ones.
func (r *ring) add(m raw.Mark) {
	if m.Time >= r.max {
		r.max = m.Time
		r.main.push(m)
		return
	}
	r.addEarly(m)
}

// addEarly keeps the early ones in order. The newest is nearly always the last. It does not go
// before those that this round delivers.
func (r *ring) addEarly(m raw.Mark) {
	all := r.early.all()[r.dueEarly:]
	i := len(all)
	if i > 0 && before(m, all[i-1]) {
		i = sort.Search(i, func(j int) bool { return before(m, all[j]) })
	}
	r.early.insert(r.dueEarly+i, m)
}

// lose adds a loss that no record has reported. It is not in the ring, so it must not raise max.
func (r *ring) lose(n, time uint64) {
	r.reported += n
	r.advance += n
	o := raw.Odd{Off: r.scan - 8 | isOdd | unreported, Kind: raw.Lost, Lost: n, After: r.max}
	if all := r.odd.all(); len(all) > 0 && all[len(all)-1].Off == o.Off { // one more before the first was delivered
		held := r.early.all()[r.dueEarly:] // what this round delivers stays
		if i := slices.IndexFunc(held, func(m raw.Mark) bool { return m.Off == o.Off }); i >= 0 {
			o.Lost += all[len(all)-1].Lost
			r.odd.remove(len(all) - 1)
			r.early.remove(r.dueEarly + i)
		}
	}
	r.odd.push(o)
	r.addEarly(raw.Mark{Time: time, Off: o.Off})
}

// first is the key of the ring's earliest undelivered record, never if there is none.
func (r *ring) first() uint64 {
	key := uint64(never)
	if !r.main.empty() {
		key = r.main.front().Time
	}
	if !r.early.empty() {
		key = min(key, r.early.front().Time)
	}
	return key
}

// samples counts the undelivered ones.
func (r *ring) samples() int { return len(r.main.all()) + len(r.early.all()) - len(r.odd.all()) }

// done is where the ring's undelivered records begin, those copied out aside.
func (r *ring) done() uint64 {
	n := r.scan - r.freed
	for _, e := range r.early.all() {
		if at := e.Off&^flags - r.freed; e.Off&unreported == 0 && int64(at) >= 0 {
			n = min(n, at)
		}
	}
	all := r.main.all()
	// Those that are copied out lie below freed. Their keys may be far ahead of what lies behind them.
	if i := sort.Search(len(all), func(i int) bool { return int64(all[i].Off&^flags-r.freed) >= 0 }); i < len(all) {
		n = min(n, all[i].Off&^flags-r.freed)
	}
	return r.freed + n
}

// take moves the earliest event that is due into it, given the greatest key delivered. alone is for what does not
// lie in the ring's view.
func (r *ring) take(it *Item, last uint64, alone *raw.Single) {
	var e raw.Mark
	if r.dueEarly > 0 && (r.dueMain == 0 || before(r.early.front(), r.main.front())) {
		e = r.early.front()
		r.early.pop()
		r.dueEarly--
	} else {
		e = r.main.front()
		r.main.pop()
		r.dueMain--
	}
	it.Key = e.Time
	if e.Off&placed != 0 {
		it.Key = max(e.Time, last)
	}
	it.Off = e.Off &^ flags
	if e.Off&isOdd != 0 {
		r.takeOdd(e, it, alone)
		return
	}
	ev, size, ok := r.find(it.Off, alone)
	it.Event, it.Size = ev, size
	switch timed := ok && ev.Time() == it.Key; {
	case timed:
	case ok && r.timeAt >= 0:
		it.Event = alone.Timed(ev, it.Key) // it has no time in its payload, or none that can be believed
	default: // it was a sample when it was scanned: something has written over it since
		it.Size = 8
		it.Event = alone.Odd(r.raw, r.raw.CPU(), raw.Odd{Kind: raw.Corrupt, Fault: raw.FaultChanged, Off: it.Off, Size: it.Size, Time: it.Key})
	}
}

// find looks a sample up that was found before, in the ring or in what was copied out of it.
func (r *ring) find(off uint64, alone *raw.Single) (ev raw.Event, size uint64, ok bool) {
	in, view, end := r.raw, r.view, r.scan
	if len(r.chunks) > 0 && int64(off-r.freed) < 0 {
		if c := r.chunkOf(off); c != nil {
			r.from = c
			in, view, off, end = c.block, c.block.View(), off-c.start, c.end-c.start
		}
	}
	if ev, size, ok = view.Find(in.At(off)); ok {
		return ev, size, true
	}
	if in.Parse(off, end, &r.rec); r.rec.Kind != raw.Sample {
		return raw.Event{}, 0, false
	}
	return alone.Join(in, &r.rec), r.rec.Size, true // it goes over the edge, or is too short for the view
}

// takeOdd fills in what is no sample.
func (r *ring) takeOdd(e raw.Mark, it *Item, alone *raw.Single) {
	all := r.odd.all()
	// As a rule it is the first. No offset is relied on: a damaged head can make them wrap.
	i := slices.IndexFunc(all, func(o raw.Odd) bool { return o.Off == e.Off })
	o := all[i]
	r.odd.remove(i)
	o.Off, o.After, o.Time = it.Off, min(o.After, e.Time), it.Key
	it.Event, it.Size = alone.Odd(r.raw, r.raw.CPU(), o), o.Size
}

// endRound ends what is due. If the round ended before, what a scan has added since may belong
// before it.
func (r *ring) endRound() {
	if r.dueEarly > 0 {
		slices.SortFunc(r.early.all(), func(a, b raw.Mark) int {
			return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(int64(a.Off-b.Off), 0))
		})
	}
	r.dueMain, r.dueEarly = 0, 0
}

func before(a, b raw.Mark) bool {
	return a.Time < b.Time || a.Time == b.Time && int64(a.Off-b.Off) < 0
}
