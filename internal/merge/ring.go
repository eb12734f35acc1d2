package merge

import (
	"math"

	"github.com/ringfold/ringfold/internal/raw"
)

const never = math.MaxUint64

// A ring is nearly sorted: interrupts nest, so about one record in 10^5 lies behind one with a
// later time. The main run is the records whose time is not below that of any before them, and it
// is read straight from the ring. The others, the early ones, are few and kept aside in time order.
// An early record is always delivered before the main run comes to it, because the main run's
// records from its predecessor on have later times. So the main run's position is at or below every
// undelivered record, and freeing may follow it; only an early record whose predecessor was
// delivered before it was scanned may lie below (see done).
type ring struct {
	raw *raw.Ring

	freed uint64 // data_tail as published
	pos   uint64 // the record in front, or scan; all below are delivered
	scan  uint64 // all records below are checked; the next scan goes on here
	max   uint64 // greatest time in the main run up to scan
	prev  uint64 // greatest time in the main run up to pos: where a gap begins

	early queue[early] // undelivered, by time, then offset
	marks queue[mark]  // of [pos, scan), by offset

	// One item is with the caller or dead, the other is the front: the main run's next record, at pos.
	items    [2]Item
	front    int    // index into items
	frontKey uint64 // never: the main run has no more up to scan
}

// early is a record to deliver before the main run comes to it.
type early struct{ time, off, end uint64 }

// mark is a place where the main run does not simply take the next record.
type mark struct {
	off, end uint64
	time     uint64 // the key of a corrupt stretch; never for an early record, which is skipped
}

// scanTo checks the records from scan to head, and sorts the early ones out. A time later than
// ceiling, which is ahead of every honest clock, makes a record corrupt: waiting for its turn would
// hold the ring back for ever.
func (r *ring) scanTo(head, ceiling uint64) (found Found) {
	var rec raw.Record
	for r.scan != head {
		off := r.scan
		r.raw.Parse(off, head, &rec)
		r.scan += rec.Size
		switch {
		case rec.Kind == raw.Corrupt, rec.Time > ceiling:
			r.marks.push(mark{off: off, end: r.scan, time: r.max})
		case rec.Kind == raw.Unknown:
			found.Unknown++
		case rec.Kind == raw.Lost && (rec.Lost == 0 || rec.Time == 0 || rec.Time >= r.max):
			// Goes with the main run: a loss has the time of the sample that follows it.
		case rec.Time >= r.max:
			r.max = rec.Time
		default:
			if rec.Kind == raw.Sample {
				found.Inversions++
			}
			r.insert(early{time: rec.Time, off: off, end: r.scan})
			r.marks.push(mark{off: off, end: r.scan, time: never})
		}
	}
	return found
}

// insert keeps early sorted. The newest is nearly always the last.
func (r *ring) insert(e early) {
	all := r.early.all()
	i := len(all)
	for i > 0 && all[i-1].time > e.time {
		i--
	}
	r.early.insert(i, e)
}

// advance makes the next record of the main run the front. What lies between and is not delivered
// is passed over: unknown records, losses of nothing, and early records.
func (r *ring) advance() {
	it := &r.items[r.front]
	for r.pos != r.scan {
		if !r.marks.empty() && int64(r.marks.front().off-r.pos) <= 0 {
			m := r.marks.front()
			r.marks.pop()
			if m.off != r.pos {
				continue // a record was written over since the scan and reached beyond the mark
			}
			if m.time == never {
				r.pos = m.end
				continue
			}
			r.raw.Parse(m.off, m.end, &it.Record)
			if it.Kind != raw.Corrupt {
				it.Fault = raw.FaultTime
			}
			it.Kind, it.Size, r.frontKey = raw.Corrupt, m.end-m.off, m.time
			return
		}
		r.raw.Parse(r.pos, r.scan, &it.Record)
		switch {
		case it.Kind == raw.Corrupt:
			// It was well when scanned: something wrote over it since. All up to scan is in doubt.
			r.early.clear()
			r.marks.clear()
		case it.Kind == raw.Unknown, it.Kind == raw.Lost && it.Lost == 0:
			r.pos += it.Size
			continue
		}
		// A sample lies within these bounds by construction. A loss or a corrupt stretch has no
		// place of its own and is moved into them, as is a sample written over since the scan.
		r.frontKey = min(max(it.Time, r.prev), r.max)
		return
	}
	r.frontKey = never
}

// done is where the ring's undelivered records begin.
func (r *ring) done() uint64 {
	n := r.pos - r.freed
	for _, e := range r.early.all() {
		n = min(n, e.off-r.freed)
	}
	return r.freed + n
}

// key is the time of the ring's earliest undelivered record, never if there is none.
func (r *ring) key() uint64 {
	if !r.early.empty() && r.early.front().time < r.frontKey {
		return r.early.front().time
	}
	return r.frontKey
}

// take removes the ring's earliest record and makes the next one its front. The item is good until
// the next take.
func (r *ring) take() *Item {
	// An early record's equal in the main run lies before it, and so goes first.
	if !r.early.empty() && r.early.front().time < r.frontKey {
		it, e := &r.items[1-r.front], r.early.front()
		r.early.pop()
		r.raw.Parse(e.off, e.end, &it.Record)
		if it.Kind == raw.Unknown || it.Kind == raw.Lost && it.Lost == 0 {
			it.Kind, it.Fault = raw.Corrupt, raw.FaultChanged
		}
		it.Size = e.end - e.off
		it.Key, it.After = e.time, min(r.prev, e.time)
		return it
	}
	it := &r.items[r.front]
	it.Key, it.After = r.frontKey, r.prev
	r.prev = r.frontKey
	r.pos += it.Size
	r.front = 1 - r.front
	r.advance()
	return it
}
