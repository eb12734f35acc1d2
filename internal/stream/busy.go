package stream

import "github.com/ringfold/ringfold/internal/raw"

// busy is a record that its program had reserved and not committed when a scan first reached it.
type busy struct {
	off, size uint64
	// after is a clock reading from before an earlier head was loaded, one at or below off. The
	// program reserved the record later, so a time stamped after that is later too. 0: no such
	// scan.
	after uint64
	found uint64 // clock reading of the scan that first reached it
	max   uint64 // the greatest key before it in the ring
}

// settled is where the first busy record begins, or scan. The tail does not pass it. Once the tail
// is there, the kernel wakes readers at that record's commit.
func (r *ring) settled() uint64 {
	if len(r.busy) > 0 {
		return r.busy[0].off
	}
	return r.scan
}

// lookAgain handles the busy records that are no longer busy.
func (r *ring) lookAgain(ceiling uint64, found *findings) {
	kept := r.busy[:0]
	for _, b := range r.busy {
		rec := &r.rec
		r.Raw.Parse(b.off, b.off+b.size, rec)
		switch {
		case rec.Size != b.size || rec.Kind == raw.Corrupt: // damaged: lengths never change
			o := raw.Odd{Off: b.off | isOdd | placed, Size: b.size, Kind: raw.Corrupt, Fault: raw.FaultChanged}
			r.odd.push(o)
			r.addEarly(raw.Mark{Time: r.max, Off: o.Off})
		case rec.Kind == raw.Busy:
			kept = append(kept, b)
		case rec.Kind == raw.Discarded:
			found.discarded++
		case rec.Kind == raw.Sample:
			key, flag := r.keyOf(rec, ceiling, found) // without its own time: up to ceiling
			if key < b.max {
				found.inversions++
			}
			r.addEarly(raw.Mark{Time: key, Off: b.off | flag})
		}
	}
	r.busy = kept
}

// committed returns the size of the first record that the latest scan found busy, or 0 if it still
// is.
func (r *ring) committed() uint64 {
	if len(r.busy) == 0 || r.Raw.Busy(r.busy[0].off, r.scan) {
		return 0
	}
	return r.busy[0].size
}

// stampedUpTo returns the clock reading up to which the ring is complete: every record stamped
// before it is held or delivered. It requires that records carry a time taken after their
// reservation, by clocks that agree. The reading precedes the load of the latest scanned head or,
// if records are busy, the reservation of the first of them.
func (r *ring) stampedUpTo() uint64 {
	if len(r.busy) > 0 {
		return r.busy[0].after // scans come one after the other, so it is the smallest
	}
	return r.looked
}
