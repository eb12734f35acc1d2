package merge

import "github.com/ringfold/ringfold/internal/raw"

// busy is a record that its program has reserved and not committed, as the scan found that came to it.
type busy struct {
	off, size uint64
	// A clock reading before the head was loaded that the scan before came to: at off, or below. So it is from before the record was
	// reserved, and a stamp taken behind that is later. 0: there was no such scan.
	after uint64
	found uint64 // clock reading of the scan that came to it
	max   uint64 // the greatest key before it in the ring
}

// settled is where the first busy record begins, or scan. The tail does not pass it.
func (r *ring) settled() uint64 {
	if len(r.busy) > 0 {
		return r.busy[0].off
	}
	return r.scan
}

// lookAgain takes those busy records into account that are no longer busy.
func (r *ring) lookAgain(ceiling uint64, found *Found) {
	kept := r.busy[:0]
	for _, b := range r.busy {
		rec := &r.rec
		r.raw.Parse(b.off, b.off+b.size, rec)
		switch {
		case rec.Size != b.size || rec.Kind == raw.Corrupt: // its length does not change, unless memory is damaged
			o := raw.Odd{Off: b.off | isOdd | placed, Size: b.size, Kind: raw.Corrupt, Fault: raw.FaultChanged}
			r.odd.push(o)
			r.addEarly(raw.Mark{Time: r.max, Off: o.Off})
		case rec.Kind == raw.Busy:
			kept = append(kept, b)
		case rec.Kind == raw.Discarded:
			found.Discarded++
		case rec.Kind == raw.Sample:
			key, flag := r.keyOf(rec, ceiling, found) // without a time of the record's own, it is at most ceiling
			if key < b.max {
				found.Inversions++
			}
			r.addEarly(raw.Mark{Time: key, Off: b.off | flag})
		}
	}
	r.busy = kept
}

// Busy returns how many records of ring i the latest scan found busy.
func (m *Merger) Busy(i int) int { return len(m.rings[i].busy) }

// BusySince returns the clock reading of the scan that found the first busy record of ring i. There must be one.
func (m *Merger) BusySince(i int) (now uint64) { return m.rings[i].busy[0].found }

// CaughtUp reports whether the tail of ring i is at the first busy record: the kernel wakes readers when that is committed.
func (m *Merger) CaughtUp(i int) bool { return m.rings[i].freed == m.rings[i].settled() }

// Committed returns the size of the first record of ring i that the latest scan found busy, if it no longer is, else 0.
func (m *Merger) Committed(i int) uint64 {
	r := &m.rings[i]
	if len(r.busy) == 0 || r.raw.Busy(r.busy[0].off, r.scan) {
		return 0
	}
	return r.busy[0].size
}

// StampedUpTo returns up to which clock reading ring i is complete, if its records carry a time that was taken behind their
// reservation, by clocks that agree: every record stamped before is held or has been delivered. It is the one before the head was loaded
// that the latest scan came to; or, if records are busy, one from before the first of them was reserved.
func (m *Merger) StampedUpTo(i int) uint64 {
	r := &m.rings[i]
	if len(r.busy) > 0 {
		return r.busy[0].after // scans come one after the other, so it is the smallest
	}
	return r.looked
}
