package stream

import (
	"slices"
	"sort"

	"github.com/ringfold/ringfold/internal/raw"
)

// ahead returns how many bytes a scan to head would check: 0 if the head went back or far ahead.
// The kernel publishes no such head, and its next one is right.
func (r *ring) ahead(head uint64) uint64 {
	if n := head - r.scan; int64(n) > 0 && head-r.oldest() < farthest {
		return n
	}
	return 0
}

// scanTo checks the records from scan to head, and the busy ones. A time later than ceiling, which
// is ahead of every honest clock, makes a record corrupt: waiting for its turn would hold the ring
// back for ever.
func (r *ring) scanTo(head, ceiling, now uint64) (found findings) {
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
	var loss raw.Odd // precedes the sample that reports it
	for r.scan != head {
		if loss.Lost == 0 {
			n := len(r.main.buf)
			r.main.buf, r.scan = r.Raw.Samples(r.scan, head, r.max, ceiling, r.main.buf)
			if all := r.main.buf; len(all) > n {
				r.max = all[len(all)-1].Time
			}
			if r.scan == head {
				break
			}
		}
		rec, off := &r.rec, r.scan
		r.Raw.Parse(off, head, rec)
		r.scan += rec.Size
		if loss.Lost != 0 && rec.Kind != raw.Sample {
			r.addPlaced(loss) // its sample is missing: memory is damaged
			loss.Lost = 0
		}
		switch rec.Kind {
		case raw.Corrupt:
			r.addPlaced(raw.Odd{Off: off, Size: rec.Size, Kind: raw.Corrupt, Fault: rec.Fault})
		case raw.Unknown:
			found.unknown++
		case raw.Busy:
			r.busy = append(r.busy, busy{off, rec.Size, before, now, r.max})
		case raw.Discarded:
			found.discarded++
		case raw.Lost:
			loss = raw.Odd{Off: off, Size: rec.Size}
			if r.Raw.Counted(rec, &loss) {
				r.Raw.Losses.Know(&loss)
				r.addOdd(loss, loss.Time, 0)
				loss.Lost = 0
				continue
			}
			time := rec.Time
			if r.timeAt >= 0 {
				time = never // not comparable with times of payloads
			}
			loss = raw.Odd{Off: off, Size: rec.Size, Kind: raw.Lost}
			loss.Lost, loss.After = r.Raw.Losses.Report(rec.Lost, time, r.max)
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
				found.inversions++
			}
			r.add(raw.Mark{Time: key, Off: off | flag})
		}
	}
	if loss.Lost != 0 {
		r.addPlaced(loss)
	}
	return found
}

// keyOf returns the sort key of a sample, and the placed flag if it has none. A key above ceiling
// is not credible.
func (r *ring) keyOf(rec *raw.Record, ceiling uint64, found *findings) (key, flag uint64) {
	if r.timeAt < 0 {
		return rec.Time, 0
	}
	if key, ok := r.Raw.Payload8(rec, r.timeAt); ok && key <= ceiling {
		return key, 0
	} else if ok || rec.Time == 0 {
		found.bad++
	}
	found.keyless++
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

// add appends a record to the main run or, if its key is below an earlier one, adds it to the early
// run.
func (r *ring) add(m raw.Mark) {
	if m.Time >= r.max {
		r.max = m.Time
		r.main.push(m)
		return
	}
	r.addEarly(m)
}

// addEarly keeps the early run sorted. A new record nearly always belongs near the end. It never
// goes before those from before the round.
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

// lose adds a loss that no record has reported. It has no place in the ring, so it must not raise
// max.
func (r *ring) lose(o raw.Odd) {
	o.Off = r.scan - 8 | isOdd | unreported
	// Join it with a previous loss that is not delivered yet.
	if all := r.odd.all(); len(all) > 0 && all[len(all)-1].Off == o.Off && all[len(all)-1].CPU == o.CPU && all[len(all)-1].Lane == o.Lane && all[len(all)-1].Kind == o.Kind {
		held := r.early.all()[r.dueEarly:] // this piece has already counted those that are due
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
