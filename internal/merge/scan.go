package merge

import (
	"slices"
	"sort"

	"github.com/ringfold/ringfold/internal/raw"
)

// ahead is how many bytes a scan to head would check: none if the head went back or far ahead. None of
// the kernel's does, and the next is right.
func (r *ring) ahead(head uint64) uint64 {
	if n := head - r.scan; int64(n) > 0 && head-r.oldest() < farthest {
		return n
	}
	return 0
}

// scanTo checks the records from scan to head, and those that were busy. A time later than ceiling, which is ahead of every
// honest clock, makes a record corrupt: waiting for its turn would hold the ring back for ever.
func (r *ring) scanTo(head, ceiling, now uint64) (found Found) {
	r.lookAgain(ceiling, &found)
	before := r.looked
	if head == r.scan {
		r.looked = now
	}
	if r.ahead(head) == 0 {
		return found
	}
	r.looked = now
	r.main.compact()
	var loss raw.Odd // waits for the sample that reports it, and goes before it
	for r.scan != head {
		if loss.Lost == 0 {
			n := len(r.main.buf)
			r.main.buf, r.scan = r.raw.Samples(r.scan, head, r.max, ceiling, r.main.buf)
			if all := r.main.buf; len(all) > n {
				r.max = all[len(all)-1].Time
			}
			if r.scan == head {
				break
			}
		}
		rec, off := &r.rec, r.scan
		r.raw.Parse(off, head, rec)
		r.scan += rec.Size
		if loss.Lost != 0 && rec.Kind != raw.Sample {
			r.addPlaced(loss) // cut off from its sample: memory is damaged
			loss.Lost = 0
		}
		switch rec.Kind {
		case raw.Corrupt:
			r.addPlaced(raw.Odd{Off: off, Size: rec.Size, Kind: raw.Corrupt, Fault: rec.Fault})
		case raw.Unknown:
			found.Unknown++
		case raw.Busy:
			r.busy = append(r.busy, busy{off, rec.Size, before, now, r.max})
		case raw.Discarded:
			found.Discarded++
		case raw.Lost:
			loss = raw.Odd{Off: off, Size: rec.Size}
			if r.raw.Counted(rec, &loss) {
				r.raw.Losses.Known.Add(loss.Lost)
				r.addOdd(loss, loss.Time, 0)
				loss.Lost = 0
				continue
			}
			time := rec.Time
			if r.timeAt >= 0 {
				time = never // it does not compare with those of payloads
			}
			loss = raw.Odd{Off: off, Size: rec.Size, Kind: raw.Lost}
			loss.Lost, loss.After = r.raw.Losses.Report(rec.Lost, time, r.max)
		case raw.Sample:
			key, flag := r.keyOf(rec, ceiling, &found)
			bad := key > ceiling
			if bad {
				key, flag = r.max, placed
			}
			if loss.Lost != 0 {
				r.addOdd(loss, key, flag)
				loss.Lost = 0
			}
			if bad {
				r.addPlaced(raw.Odd{Off: off, Size: rec.Size, Kind: raw.Corrupt, Fault: raw.FaultTime})
				continue
			}
			if key < r.max {
				found.Inversions++
			}
			r.add(raw.Mark{Time: key, Off: off | flag})
		}
	}
	if loss.Lost != 0 {
		r.addPlaced(loss)
	}
	return found
}

// keyOf returns what a sample is ordered by, above ceiling if that cannot be believed, and the flag
// of those that have no key.
func (r *ring) keyOf(rec *raw.Record, ceiling uint64, found *Found) (key, flag uint64) {
	if r.timeAt < 0 {
		return rec.Time, 0
	}
	if key, ok := r.raw.Payload8(rec, r.timeAt); ok && key <= ceiling {
		return key, 0
	} else if ok || rec.Time == 0 {
		found.Bad++
	}
	found.Keyless++
	if rec.Time == 0 {
		return r.max, placed
	}
	return rec.Time, 0
}

func (r *ring) addPlaced(o raw.Odd) { r.addOdd(o, r.max, placed) }

func (r *ring) addOdd(o raw.Odd, key, flag uint64) {
	o.Off |= isOdd | flag
	r.odd.push(o)
	r.add(raw.Mark{Time: key, Off: o.Off})
}

// add takes a record into the main run, or, if its key is below that of one before, to the early ones.
func (r *ring) add(m raw.Mark) {
	if m.Time >= r.max {
		r.max = m.Time
		r.main.push(m)
		return
	}
	r.addEarly(m)
}

// addEarly keeps the early ones in order. The newest is nearly always among the last. It does not go
// before those that the round began with.
func (r *ring) addEarly(m raw.Mark) {
	all := r.early.all()[r.roundEarly:]
	i := len(all)
	for near := max(i-8, 0); i > 0 && before(m, all[i-1]); i-- {
		if i == near {
			i = sort.Search(i, func(j int) bool { return before(m, all[j]) })
			break
		}
	}
	r.early.insert(r.roundEarly+i, m)
}

// lose adds a loss that no record has reported. It is not in the ring, so it must not raise max.
func (r *ring) lose(o raw.Odd) {
	o.Kind, o.Off = raw.Lost, r.scan-8|isOdd|unreported
	if all := r.odd.all(); len(all) > 0 && all[len(all)-1].Off == o.Off && all[len(all)-1].CPU == o.CPU { // one more before the first was delivered
		held := r.early.all()[r.dueEarly:] // what this round delivers stays
		if i := slices.IndexFunc(held, func(m raw.Mark) bool { return m.Off == o.Off }); i >= 0 {
			o.Lost, o.After = o.Lost+all[len(all)-1].Lost, all[len(all)-1].After
			r.odd.remove(len(all) - 1)
			r.early.remove(r.dueEarly + i)
			if r.dueEarly+i < r.roundEarly {
				r.roundEarly--
			}
		}
	}
	r.odd.push(o)
	r.addEarly(raw.Mark{Time: o.Time, Off: o.Off})
}
