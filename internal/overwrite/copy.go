// Package overwrite reads perf rings that the kernel overwrites: those of events with write_backward, mapped without PROT_WRITE.
//
// Such a ring is written from its end to its beginning (__perf_output_begin in kernel/events/ring_buffer.c). data_head starts at 0 and goes
// down: it points to the newest record. Behind that, at rising offsets, follow the older records, each whole, up to the bytes that newer
// records have overwritten. Nobody tells the kernel what was read, and no output fails.
//
// A Copy is taken while programs go on to output, and proven afterwards: Take copies, from data_head on; then the caller waits until every
// output that was under way has ended, a grace period; then Check loads data_head again. An output that overwrites bytes of the
// ring while they are copied has reserved them by then, and has published a data_head below them since. So what lies no further than the
// ring's size from the second data_head is as it was. The rest is given up: it is the oldest.
package overwrite

import (
	"math"
	"os"
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// nested is how many outputs may be under way on a CPU: three each that bpf_trace_nest_level and bpf_event_output_nest_level let in
// (kernel/trace/bpf_trace.c).
const nested = 6

// Copy is what one ring has held.
type Copy struct {
	live  *raw.Ring
	Began uint64    // since when outputs have come to the ring
	words []uint64  // the ring's bytes, in a row, the newest record first
	ring  *raw.Ring // of words
	head  uint64    // of the live ring, where words begin
	bytes uint64    // of words that are sure, from the first on
	until uint64
	// places are where in words records begin, in words: in order of time, and of output where that is the same.
	places []uint32

	Since uint64    // every event of the ring with this time or a later one, up to Until, is there
	Fault raw.Fault // what ended the reading before the oldest record that is there, if not FaultNone
	Off   uint64    // where in words that was
}

// NewCopy makes room for what a ring holds. Samples have their times at an offset of their payloads, or the kernel's if that is below 0.
func NewCopy(live *raw.Ring, timeAt int) *Copy {
	c := &Copy{live: live}
	words := int(live.Size() / 8)
	c.words = make([]uint64, words, words+1) // as raw.NewCopy wants it
	for i := 0; i < words; i += os.Getpagesize() / 8 {
		c.words[i] = 1 // page faults would make Take longer, and what is overwritten meanwhile more
	}
	c.ring = raw.NewCopy(live, c.words)
	c.ring.SetFields(timeAt, -1)
	return c
}

// Live is the ring that is copied.
func (c *Copy) Live() *raw.Ring { return c.live }

// Written is how many bytes have ever been output to a ring.
func Written(live *raw.Ring) uint64 { return -live.Head() }

// Take copies what is published. The copy is worth nothing before Check.
func (c *Copy) Take() {
	c.head = c.live.Head()
	c.bytes = min(-c.head, c.live.Size())
	c.live.CopyWords(c.words, c.head, c.bytes)
}

// Check gives up what may have been overwritten. Every output that was under way when Take returned has ended.
func (c *Copy) Check() {
	if newer := c.head - c.live.Head(); newer < c.live.Size() {
		c.bytes = min(c.bytes, c.live.Size()-newer)
	} else {
		c.bytes = 0
	}
}

// Index finds the records, of which those up to a time are wanted: every event with that time or an earlier one was published
// before Take. A later call of Keep selects among them.
func (c *Copy) Index(until uint64) {
	c.places, c.until, c.Fault, c.Off = c.places[:0], until, raw.FaultNone, 0
	full := c.bytes < -c.head // some are overwritten, or never were copied
	sorted, last := true, uint64(math.MaxUint64)
	lost := false
	var rec raw.Record
	for off := uint64(0); off < c.bytes; off += rec.Size {
		c.ring.Parse(off, c.bytes, &rec)
		if rec.Kind == raw.Corrupt {
			// The last one goes past what is sure: that is no fault. What no record has ended at, 70 KiB at once, is one.
			if c.Off = off; rec.Fault != raw.FaultBeyondHead || !full {
				c.Fault = rec.Fault
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
		c.places = append(c.places, uint32(off/8)) // a ring has 1 GiB at most
		if n := len(c.places); lost {
			// It lies before the sample that reports it, in one reservation: both are to keep that order when all is turned around.
			c.places[n-1], c.places[n-2] = c.places[n-2], c.places[n-1]
		}
		lost = rec.Kind == raw.Lost
	}
	c.Since = c.Began
	if full {
		c.Since = c.since()
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

// since is for a ring of which older records are lost, with places still newest first.
//
// A lost one has the time of the kernel X, and was reserved before those that are left. Say X is later than the times of the oldest n of
// these. Each of them had taken its time before X, and then reserved after it: so all were under way when X was, one within the other. There
// are never more than nested, X included. So with n = nested, X is at most the greatest of their times.
func (c *Copy) since() uint64 {
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
	return min(max(c.Began, greatest+1), c.until+1)
}

// Keep forgets records with times before from, and those later than what Index was told.
func (c *Copy) Keep(from uint64) {
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

// Len is how many records there are.
func (c *Copy) Len() int { return len(c.places) }

// Bytes is how many bytes of the ring were sure.
func (c *Copy) Bytes() uint64 { return c.bytes }

func (c *Copy) parse(place uint32, rec *raw.Record) { c.ring.Parse(8*uint64(place), c.bytes, rec) }

func (c *Copy) timeAt(place uint32) uint64 {
	var rec raw.Record
	c.parse(place, &rec)
	return c.time(&rec)
}

// time is what orders a record: the one in its payload, if it has one that may be, or the kernel's.
func (c *Copy) time(rec *raw.Record) uint64 {
	if rec.Kind == raw.Sample && c.ring.TimeAt() >= 0 {
		if t, ok := c.ring.Payload8(rec, c.ring.TimeAt()); ok && t <= rec.Time {
			return t
		}
	}
	return rec.Time
}

// event makes an event of a record. It may use single.
func (c *Copy) event(place uint32, single *raw.Single) raw.Event {
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

// after is the time of the record that was output before a loss: the next but one, as the next is what reports the loss.
func (c *Copy) after(loss raw.Record) uint64 {
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
