package merge

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ringfold/ringfold/internal/raw"
)

// A perf ring is nearly sorted: interrupts nest, so about one record in 10^5 lies behind one with a later
// time. The main run is the records whose key is not below that of any before them; the others are the
// early ones. Both are kept in order, so that a round begins with sorted runs. In a BPF ring buffer that several
// CPUs write, a third may be early, but each belongs near the end of the early ones so far.
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
	roundEarly        int    // of early, those the round began with and has not delivered. The others are in order of their own
	plain             bool   // what is due is samples, and in the ring

	busy   []busy // records below scan that are not committed, by offset
	looked uint64 // clock reading before the head was loaded that the latest scan has come to; 0: there was none

	chunks []*chunk // copied out and not delivered, oldest first
	from   *chunk   // of the item that is with the caller, nil if it is in the ring

	rec raw.Record // scratch
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

// done is where the ring's busy and undelivered records begin, those copied out aside.
func (r *ring) done() uint64 {
	n := r.settled() - r.freed
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

// take moves the earliest event that is due into it, given the greatest key delivered, and the least key that is not late anyway. alone is for
// what does not lie in the ring's view.
func (r *ring) take(it *Item, last, floor uint64, alone *raw.Single) {
	var e raw.Mark
	if r.earlyIsNext() {
		e = r.early.front()
		r.early.pop()
		r.dueEarly--
		r.roundEarly--
	} else {
		e = r.main.front()
		r.main.pop()
		r.dueMain--
	}
	it.Key, it.Lateness = e.Time, 0
	if e.Off&placed != 0 {
		it.Key = max(e.Time, last)
	} else if least := max(last, floor); e.Time < least {
		it.Lateness = least - e.Time
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
		it.Event = alone.Odd(r.raw, raw.Odd{CPU: r.raw.CPU(), Kind: raw.Corrupt, Fault: raw.FaultChanged, Off: it.Off, Size: it.Size, Time: it.Key})
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
	if e.Off&unreported == 0 && !o.Counted {
		o.CPU = r.raw.CPU()
	}
	o.Off, o.After, o.Time = it.Off, min(o.After, e.Time), it.Key
	it.Event, it.Size = alone.Odd(r.raw, o), o.Size
}

// earlyIsNext says that the earliest record that is due is an early one.
func (r *ring) earlyIsNext() bool {
	return r.dueEarly > 0 && (r.dueMain == 0 || before(r.early.front(), r.main.front()))
}

// run is the early ones, or else the main run.
func (r *ring) run(early bool) *queue[raw.Mark] {
	if early {
		return &r.early
	}
	return &r.main
}

// untake makes the latest that was taken of a run undelivered again.
func (r *ring) untake(early bool) {
	r.run(early).first--
	if early {
		r.dueEarly++
		r.roundEarly++
		return
	}
	r.dueMain++
}

// endRound ends what is due. What a scan has added since the round began may belong before what is left of it.
func (r *ring) endRound() {
	if all, n := r.early.all(), r.roundEarly; n > 0 && n < len(all) {
		from := sort.Search(n, func(i int) bool { return before(all[n], all[i]) })
		slices.SortFunc(all[from:], func(a, b raw.Mark) int {
			return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(int64(a.Off-b.Off), 0))
		})
	}
	r.dueMain, r.dueEarly, r.roundEarly = 0, 0, 0
}

func before(a, b raw.Mark) bool {
	return a.Time < b.Time || a.Time == b.Time && int64(a.Off-b.Off) < 0
}
