package stream

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ringfold/ringfold/internal/raw"
)

// A perf ring is nearly sorted: interrupts nest, so about one record in 10^5 lies behind one with a
// later time. The main run has the records whose key is not below that of any before them; the
// others are early. Both runs stay sorted, so that a round begins with sorted runs. In a BPF ring
// buffer that several CPUs write, a third may be early, but each belongs near the end of the early
// run.
type ring struct {
	*Ring
	memory *raw.Ring // Ring.Raw, at hand for each event: without it ordered reading took 3 % longer
	view   *raw.View // of its events
	timeAt int       // of Raw: offset of the key in a payload; below 0: the record's time
	eighth uint64    // of the ring's size

	freed uint64 // data_tail as published
	tryAt uint64 // once delivery reaches this offset, try to free
	scan  uint64 // all records below are checked; the next scan begins here
	max   uint64 // greatest key in the main run so far

	main  queue[raw.Mark] // undelivered, by key and by offset
	early queue[raw.Mark] // undelivered, by key, then offset
	odd   queue[raw.Odd]  // details of the non-samples in main and early, by offset
	// How many of main and of early this piece of the round has still to deliver. Scans append
	// behind them.
	dueMain, dueEarly int
	roundEnd          uint64 // scan, when the round began
	roundEarly        int    // undelivered early records of the round; newer ones are sorted apart
	plain             bool   // everything due is a sample in the ring

	busy   []busy // records below scan that are not committed, by offset
	looked uint64 // clock reading from before the latest scanned head was loaded; 0: none

	chunks []*chunk // copied out and not delivered, oldest first
	from   *chunk   // of the caller's item, nil if that is in the ring

	rec raw.Record // scratch

	// Of an Ordered: its source, and what the stream has noted of it.
	source *Source
	at     int    // index among the stream's rings
	head   uint64 // as last loaded
	before uint64 // as loaded before that
	losses lossWatch
	found  uint64 // samples held, or delivered but not counted
	tally  tally
}

// Flags in the Off of a Mark and of an Odd; offsets are multiples of 8. isOdd points to ring.odd.
// unreported marks a loss without a record, at the boundary between two scans. placed marks an
// event without a key: it goes with the records before it and cannot be late.
const (
	isOdd      = 1
	unreported = 2
	placed     = 4
	flags      = 7
)

// farthest bounds the distance of offsets, so that their signed difference orders them.
const farthest = 1 << 62

// oldest returns an offset at or below every undelivered record.
func (r *ring) oldest() uint64 {
	if len(r.chunks) > 0 {
		return r.chunks[0].start
	}
	return r.freed
}

// first returns the key of the ring's earliest undelivered record, or never.
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

// samples counts the undelivered samples.
func (r *ring) samples() int { return len(r.main.all()) + len(r.early.all()) - len(r.odd.all()) }

// done returns the offset of the ring's first record that is busy, or undelivered and not copied
// out.
func (r *ring) done() uint64 {
	n := r.settled() - r.freed
	for _, e := range r.early.all() {
		if at := e.Off&^flags - r.freed; e.Off&unreported == 0 && int64(at) >= 0 {
			n = min(n, at)
		}
	}
	all := r.main.all()
	// Copied-out records lie below freed. Their keys may be far ahead of those behind them.
	if i := sort.Search(len(all), func(i int) bool { return int64(all[i].Off&^flags-r.freed) >= 0 }); i < len(all) {
		n = min(n, all[i].Off&^flags-r.freed)
	}
	return r.freed + n
}

// take moves the earliest due event into it. last is the greatest key delivered; keys below floor
// are late. alone holds events outside the ring's view.
func (r *ring) take(it *item, last, floor uint64, alone *raw.Single) {
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
	it.key, it.lateness = e.Time, 0
	if e.Off&placed != 0 {
		it.key = max(e.Time, last)
	} else if least := max(last, floor); e.Time < least {
		it.lateness = least - e.Time
	}
	it.off = e.Off &^ flags
	if e.Off&isOdd != 0 {
		r.takeOdd(e, it, alone)
		return
	}
	ev, size, ok := r.find(it.off, alone)
	it.event, it.size = ev, size
	switch timed := ok && ev.Time() == it.key; {
	case timed:
	case ok && r.timeAt >= 0:
		it.event = alone.Timed(ev, it.key) // its payload has no credible time
	default: // it was a sample when scanned: its memory has been overwritten since
		it.size = 8
		it.event = alone.Odd(r.Raw, raw.Odd{CPU: r.Raw.CPU(), Kind: raw.Corrupt, Fault: raw.FaultChanged, Off: it.off, Size: it.size, Time: it.key})
	}
}

// find looks up a sample that a scan has found, in the ring or in a chunk copied out of it.
func (r *ring) find(off uint64, alone *raw.Single) (ev raw.Event, size uint64, ok bool) {
	in, view, end := r.memory, r.view, r.scan
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
	return alone.Join(in, &r.rec), r.rec.Size, true // crosses the edge, or too short for view
}

// takeOdd fills in an event that is not a sample.
func (r *ring) takeOdd(e raw.Mark, it *item, alone *raw.Single) {
	all := r.odd.all()
	// It is usually the first. Search by equality: a damaged head can make offsets wrap.
	i := slices.IndexFunc(all, func(o raw.Odd) bool { return o.Off == e.Off })
	o := all[i]
	r.odd.remove(i)
	if e.Off&unreported == 0 && !o.Counted {
		o.CPU = r.Raw.CPU()
	}
	o.Off, o.After, o.Time = it.off, min(o.After, e.Time), it.key
	it.event, it.size = alone.Odd(r.Raw, o), o.Size
}

// earlyIsNext reports whether the earliest due record is in the early run.
func (r *ring) earlyIsNext() bool {
	return r.dueEarly > 0 && (r.dueMain == 0 || before(r.early.front(), r.main.front()))
}

// run returns the early run or the main run.
func (r *ring) run(early bool) *queue[raw.Mark] {
	if early {
		return &r.early
	}
	return &r.main
}

// untake makes the latest record taken from a run undelivered again.
func (r *ring) untake(early bool) {
	r.run(early).first--
	if early {
		r.dueEarly++
		r.roundEarly++
		return
	}
	r.dueMain++
}

// endRound drops the due counts. Early records that scans added during the round may belong before
// undelivered ones, so it sorts the early run again.
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
