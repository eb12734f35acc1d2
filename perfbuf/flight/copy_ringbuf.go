package flight

import (
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// overwritten is the part of raw.Ring that copies a BPF ring buffer which programs overwrite.
type overwritten interface {
	Head() uint64
	Pending() uint64
	Overwritten() uint64
	Parse(off, head uint64, rec *raw.Record)
	CopyWords(to []uint64, off, n uint64)
}

// takeRingBuf copies from overwrite_pos to producer_pos: the oldest record first. In the copy, only
// records that were committed before their payloads were copied count.
func (c *ringCopy) takeRingBuf(live overwritten) {
	head := live.Head() // first: the other positions are then as new, or newer
	committed := min(live.Pending(), head)
	from := live.Overwritten()
	if head-from > c.live.Size() { // it is beyond the head: a whole lap since
		from = head
	}
	committed = max(committed, from)
	live.CopyWords(c.words, from, committed-from)
	// Of the others, only the header says whether they are committed. It is loaded first: that
	// acquires, and pairs with the xchg in bpf_ringbuf_commit (kernel/bpf/ringbuf.c), which comes
	// after the payload. A record may be committed while it is copied, and is busy all the same.
	c.busy = c.busy[:0]
	var rec raw.Record
	for off := committed; off != head; off += rec.Size {
		if live.Parse(off, head, &rec); rec.Kind == raw.Busy {
			c.busy = append(c.busy, off-from)
		}
		live.CopyWords(c.words[(off-from)/8:], off, rec.Size)
	}
	c.head, c.committed, c.skip, c.bytes = head, committed, 0, head-from
}

// checkRingBuf loads overwrite_pos again. Records below it may have been overwritten during the
// copy. If it is beyond the first record that may have been busy, so may have been the headers
// between the records from there on, and nothing in the copy is certain.
func (c *ringCopy) checkRingBuf(live overwritten) {
	if over := live.Overwritten(); over > c.committed {
		c.skip = c.bytes
	} else if from := c.head - c.bytes; over > from {
		c.skip = over - from
	}
}

// findRingBuf is findPerf. It leaves out records that were busy: their programs began after the
// call of Snapshot, or may sleep.
func (c *ringCopy) findRingBuf() (full, sorted bool) {
	clear(c.untimed)
	last, sorted := uint64(0), true
	var rec raw.Record
	for off := c.skip; off < c.bytes; off += rec.Size {
		c.parse(off, &rec)
		if rec.Kind == raw.Corrupt { // as no kernel has it: the newer ones are unreadable
			c.places, c.off, c.fault = c.places[:0], off, rec.Fault
			return true, true
		}
		if rec.Kind != raw.Sample || slices.Contains(c.busy, off) {
			continue
		}
		if _, ok := c.ring.Payload8(&rec, c.ring.TimeAt()); !ok {
			rec.Time = last
			if c.untimed == nil {
				c.untimed = map[uint64]uint64{}
			}
			c.untimed[off] = last
		}
		sorted = sorted && rec.Time >= last
		last = rec.Time
		c.places = append(c.places, uint32(off/8))
	}
	return c.head-c.bytes+c.skip > 0, sorted
}
