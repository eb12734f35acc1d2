package flight

import (
	"math"
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// The kernel writes an overwritable perf ring from its end to its beginning (__perf_output_begin in
// kernel/events/ring_buffer.c): that of an event with write_backward, mapped without PROT_WRITE.
// data_head starts at 0, goes down, and points to the newest record. The older records follow at
// rising offsets, each whole, up to the bytes that newer records have overwritten. The kernel does
// not know the reader's position, and no output fails.

// nested bounds the running outputs of a CPU to a perf ring: bpf_trace_nest_level and
// bpf_event_output_nest_level let in three each (kernel/trace/bpf_trace.c). A ring takes its
// records in the order in which they reserve, after they took their times.
const nested = 6

// takePerf copies from data_head on: the newest record first.
func (c *ringCopy) takePerf() {
	c.head = c.live.Head()
	c.bytes = min(-c.head, c.live.Size())
	c.live.CopyWords(c.words, c.head, c.bytes)
}

// checkPerf loads data_head again. An output that overwrote bytes during the copy had reserved
// them, and has since published a data_head below them. So bytes within the ring's size of that
// are intact.
func (c *ringCopy) checkPerf() {
	if newer := c.head - c.live.Head(); newer < c.live.Size() {
		c.bytes = min(c.bytes, c.live.Size()-newer)
	} else {
		c.bytes = 0
	}
}

// findPerf puts the records into places, in order of output. full says that older ones are lost,
// and sorted that they are in order of time, too.
func (c *ringCopy) findPerf() (full, sorted bool) {
	full = c.bytes < -c.head // some are overwritten, or were never copied
	last, lost := uint64(math.MaxUint64), false
	sorted = true
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
	slices.Reverse(c.places)
	return full, sorted
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
