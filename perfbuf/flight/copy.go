package flight

import (
	"cmp"
	"os"
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// ringCopy is a copy of one ring, taken while programs keep writing, and proven afterwards. take
// copies. Then the caller waits for a grace period, in which every output ends that ran during the
// copy. Then check finds out which bytes outputs may have overwritten in the meantime, and gives
// these up. They are the oldest.
type ringCopy struct {
	live   *raw.Ring
	began  uint64    // when outputs to the ring began
	nested int       // bounds the outputs to the ring that run at once
	words  []uint64  // the ring's bytes, in a row
	ring   *raw.Ring // of words
	head   uint64    // of the live ring, at take
	skip   uint64    // of words, in bytes: given up. 0 in a perf ring
	bytes  uint64    // of words: copied, and in a perf ring proven
	until  uint64
	// places are the positions of records in words, in words: in order of time, then of output.
	places []uint32

	since uint64    // the copy has every event from this time on, up to until
	fault raw.Fault // why parsing ended before the last record, if not FaultNone
	off   uint64    // where in words that was

	// Of a BPF ring buffer:
	committed uint64            // the live ring's records below it were committed before take
	busy      []uint64          // records in words that were not, in bytes
	untimed   map[uint64]uint64 // times of those without one
}

// newCopy makes room for a copy of a ring, to which at most so many outputs run at once.
func newCopy(live *raw.Ring, nested int) *ringCopy {
	c := &ringCopy{live: live, nested: nested}
	words := int(live.Size() / 8)
	c.words = make([]uint64, words, words+1) // as raw.NewCopy wants it
	for i := 0; i < words; i += os.Getpagesize() / 8 {
		c.words[i] = 1 // fault pages in now: a slower take loses more to overwriting
	}
	c.ring = raw.NewCopy(live, c.words)
	return c
}

// take copies the ring. The copy proves nothing before check.
func (c *ringCopy) take() {
	if c.isRingBuf() {
		c.takeRingBuf(c.live)
	} else {
		c.takePerf()
	}
}

// check gives up bytes that may have been overwritten. Every output that ran when take returned
// must have ended.
func (c *ringCopy) check() {
	if c.isRingBuf() {
		c.checkRingBuf(c.live)
	} else {
		c.checkPerf()
	}
}

func (c *ringCopy) isRingBuf() bool { return c.live.Layout() == raw.LayoutRingBuf }

// index finds the records. It keeps those up to a time: every event with that time or an earlier
// one was published before take. A later call of keep selects among them.
func (c *ringCopy) index(until uint64) {
	c.places, c.until, c.fault, c.off = c.places[:0], until, raw.FaultNone, 0
	find := c.findPerf
	if c.isRingBuf() {
		find = c.findRingBuf
	}
	full, sorted := find()
	c.since = c.began
	if full {
		c.since = c.sinceFull()
	}
	if !sorted {
		slices.SortStableFunc(c.places, func(a, b uint32) int { return cmp.Compare(c.timeAt(a), c.timeAt(b)) })
	}
}

// sinceFull returns since for a ring that has lost older records. places are in order of output.
//
// Let X be a lost record's time. Its output reserved before the remaining ones. Say X is later than
// the times of the oldest n of these. Each of them took its time before X and reserved after X's
// output did, so all were running at X. At most nested outputs run at once, X's included. So with n
// = nested, X is at most the greatest of their times.
func (c *ringCopy) sinceFull() uint64 {
	if len(c.places) < c.nested {
		return c.until + 1 // nothing is known
	}
	greatest := uint64(0)
	var rec raw.Record
	for _, place := range c.places[:c.nested] {
		c.parse(8*uint64(place), &rec)
		greatest = max(greatest, rec.Time)
	}
	return min(max(c.began, greatest+1), c.until+1)
}

// keep drops the records with times before from, and those later than the time given to index.
func (c *ringCopy) keep(from uint64) {
	at := func(time uint64) int {
		i, _ := slices.BinarySearchFunc(c.places, time, func(place uint32, time uint64) int {
			if c.timeAt(place) < time {
				return -1
			}
			return 1
		})
		return i
	}
	first, end := at(from), at(c.until+1)
	c.places = c.places[min(first, end):end]
}

// parse reads the record at an offset of words. A ring buffer's has the time in its payload, or
// that of its predecessor.
func (c *ringCopy) parse(off uint64, rec *raw.Record) {
	c.ring.Parse(off, c.bytes, rec)
	if c.isRingBuf() && rec.Kind == raw.Sample {
		var ok bool
		if rec.Time, ok = c.ring.Payload8(rec, c.ring.TimeAt()); !ok {
			rec.Time = c.untimed[off]
		}
	}
}

func (c *ringCopy) timeAt(place uint32) uint64 {
	var rec raw.Record
	c.parse(8*uint64(place), &rec)
	return c.time(&rec)
}

// time is a record's sort key: the time in its payload, if that is not later than the kernel's, or
// else the kernel's.
func (c *ringCopy) time(rec *raw.Record) uint64 {
	if rec.Kind == raw.Sample && c.ring.TimeAt() >= 0 {
		if t, ok := c.ring.Payload8(rec, c.ring.TimeAt()); ok && t <= rec.Time {
			return t
		}
	}
	return rec.Time
}

// event makes an event of a record. It may use single.
func (c *ringCopy) event(place uint32, single *raw.Single) raw.Event {
	var rec raw.Record
	c.parse(8*uint64(place), &rec)
	if rec.Kind == raw.Lost {
		return single.Odd(c.ring, raw.Odd{Kind: raw.Lost, CPU: c.ring.CPU(), Lost: rec.Lost, Time: rec.Time, After: c.after(rec)})
	}
	ev, _, ok := c.ring.View().Find(rec.Off)
	if !ok { // too short to have a time in its payload
		ev = single.Join(c.ring, &rec)
	}
	if time := c.time(&rec); ev.Time() != time {
		ev = single.Timed(ev, time)
	}
	return single.Private(ev)
}
