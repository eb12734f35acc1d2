package flight

import (
	"math"
	"os"
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// The kernel writes an overwritable ring from its end to its beginning (__perf_output_begin in
// kernel/events/ring_buffer.c): that of an event with write_backward, mapped without PROT_WRITE.
// data_head starts at 0, goes down, and points to the newest record. The older records follow at
// rising offsets, each whole, up to the bytes that newer records have overwritten. The kernel does
// not know the reader's position, and no output fails.

// nested bounds the running outputs of a CPU: bpf_trace_nest_level and bpf_event_output_nest_level
// let in three each (kernel/trace/bpf_trace.c).
const nested = 6

// ringCopy is a copy of one ring, taken while programs keep writing, and proven afterwards. take
// copies from data_head on. Then the caller waits for a grace period, in which every running output
// ends. Then check loads data_head again. An output that overwrote bytes during the copy had
// reserved them, and has since published a data_head below them. So bytes within the ring's size of
// the second data_head are intact. check gives up the rest, which is the oldest.
type ringCopy struct {
	live  *raw.Ring
	began uint64    // when outputs to the ring began
	words []uint64  // the ring's bytes, in a row, the newest record first
	ring  *raw.Ring // of words
	head  uint64    // of the live ring, at the first of words
	bytes uint64    // proven bytes of words, from the first on
	until uint64
	// places are the positions of records in words, in words: in order of time, then of output.
	places []uint32

	since uint64    // the copy has every event from this time on, up to until
	fault raw.Fault // why parsing ended before the oldest record, if not FaultNone
	off   uint64    // where in words that was
}

// newCopy makes room for a copy of a ring. Samples have their times at this offset of their
// payloads; below 0: the kernel's.
func newCopy(live *raw.Ring, timeAt int) *ringCopy {
	c := &ringCopy{live: live}
	words := int(live.Size() / 8)
	c.words = make([]uint64, words, words+1) // as raw.NewCopy wants it
	for i := 0; i < words; i += os.Getpagesize() / 8 {
		c.words[i] = 1 // fault pages in now: a slower take loses more to overwriting
	}
	c.ring = raw.NewCopy(live, c.words)
	c.ring.SetFields(timeAt, -1)
	return c
}

// take copies the published bytes. The copy proves nothing before check.
func (c *ringCopy) take() {
	c.head = c.live.Head()
	c.bytes = min(-c.head, c.live.Size())
	c.live.CopyWords(c.words, c.head, c.bytes)
}

// check gives up bytes that may have been overwritten. Every output that ran when take returned
// must have ended.
func (c *ringCopy) check() {
	if newer := c.head - c.live.Head(); newer < c.live.Size() {
		c.bytes = min(c.bytes, c.live.Size()-newer)
	} else {
		c.bytes = 0
	}
}

// index finds the records. It keeps those up to a time: every event with that time or an earlier
// one was published before take. A later call of keep selects among them.
func (c *ringCopy) index(until uint64) {
	c.places, c.until, c.fault, c.off = c.places[:0], until, raw.FaultNone, 0
	full := c.bytes < -c.head // some are overwritten, or were never copied
	sorted, last := true, uint64(math.MaxUint64)
	lost := false
	var rec raw.Record
	for off := uint64(0); off < c.bytes; off += rec.Size {
		c.ring.Parse(off, c.bytes, &rec)
		if rec.Kind == raw.Corrupt {
			// The last record may go past the proven bytes: no fault. An output over 64 KiB, whose
			// size wraps, is one.
			if c.off = off; rec.Fault != raw.FaultBeyondHead || !full {
				c.fault = rec.Fault
			}
			full = true
			break
		}
		if rec.Kind != raw.Sample && rec.Kind != raw.Lost {
			continue
		}
		time := c.time(&rec)
		sorted = sorted && time <= last
		last = time
		// A ring has 1 GiB at most.
		c.places = append(c.places, uint32(off/8))
		if n := len(c.places); lost {
			// A loss precedes the sample that reports it, in one reservation. Keep that order in
			// the reversal.
			c.places[n-1], c.places[n-2] = c.places[n-2], c.places[n-1]
		}
		lost = rec.Kind == raw.Lost
	}
	c.since = c.began
	if full {
		c.since = c.sinceFull()
	}
	slices.Reverse(c.places)
	if !sorted {
		slices.SortStableFunc(c.places, func(a, b uint32) int {
			if x, y := c.timeAt(a), c.timeAt(b); x != y {
				if x < y {
					return -1
				}
				return 1
			}
			return 0
		})
	}
}

// sinceFull returns since for a ring that has lost older records. places are still newest first.
//
// Let X be a lost record's kernel time. Its output reserved before the remaining ones. Say X is
// later than the times of the oldest n of these. Each of them took its time before X and reserved
// after X's output did, so all were running at X, one within the other. At most nested outputs run
// at once, X's included. So with n = nested, X is at most the greatest of their times.
func (c *ringCopy) sinceFull() uint64 {
	oldest := c.places[max(0, len(c.places)-nested):]
	if len(oldest) < nested {
		return c.until + 1 // nothing is known
	}
	greatest := uint64(0)
	var rec raw.Record
	for _, place := range oldest {
		c.parse(place, &rec)
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

func (c *ringCopy) parse(place uint32, rec *raw.Record) { c.ring.Parse(8*uint64(place), c.bytes, rec) }

func (c *ringCopy) timeAt(place uint32) uint64 {
	var rec raw.Record
	c.parse(place, &rec)
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
	c.parse(place, &rec)
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

// after returns the time of the record before a loss. That is the next but one, as the next reports
// the loss.
func (c *ringCopy) after(loss raw.Record) uint64 {
	var rec raw.Record
	rec.Off, rec.Size = loss.Off, loss.Size
	for range 2 {
		off := rec.Off + rec.Size
		if off >= c.bytes {
			return 0
		}
		if c.ring.Parse(off, c.bytes, &rec); rec.Kind == raw.Corrupt {
			return 0
		}
	}
	return rec.Time
}
