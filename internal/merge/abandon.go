package merge

import (
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// Abandon gives up everything that is held, and publishes tails behind it: in front of the first busy record, if there is one.
// What lies behind that one comes again to whoever reads the ring next.
func (m *Merger) Abandon() {
	m.release()
	for i := range m.rings {
		m.giveUp(i)
	}
	m.round.end()
}

// Remove is Abandon of ring i alone, which is merged no longer: the indices of those behind it shift down by one. It must not be called
// between Begin and End. It returns how many samples were given up that do not come again, and how many do that were delivered.
func (m *Merger) Remove(i int) (dropped, again uint64) {
	m.release()
	dropped, again = m.rings[i].left()
	m.giveUp(i)
	m.rings = slices.Delete(m.rings, i, i+1)
	m.resize()
	return dropped, again
}

// left counts samples: those held before the first busy record, and those delivered behind it.
func (r *ring) left() (held, delivered uint64) {
	if len(r.busy) == 0 {
		return uint64(r.samples()), 0
	}
	behind := r.within(r.settled(), r.scan)
	held = uint64(r.samples() - behind)
	rec, busy := &r.rec, r.busy
	for off := r.settled(); off != r.scan; off += rec.Size {
		r.raw.Parse(off, r.scan, rec)
		if len(busy) > 0 && busy[0].off == off { // it may be committed by now
			busy = busy[1:]
		} else if rec.Kind == raw.Sample {
			delivered++
		}
	}
	return held, delivered - min(delivered, uint64(behind))
}

func (m *Merger) giveUp(i int) {
	r := &m.rings[i]
	for _, c := range r.chunks {
		m.arena.put(c)
	}
	r.main, r.early, r.odd, r.chunks = queue[raw.Mark]{}, queue[raw.Mark]{}, queue[raw.Odd]{}, nil
	r.dueMain, r.dueEarly, r.roundEarly = 0, 0, 0
	m.free(i, r.settled())
}

// Advance returns how many losses of ring i were added by Lose, or Expect, that no record has reported yet.
func (m *Merger) Advance(i int) uint64 { return m.rings[i].advance }

// Expect cuts the next records that report losses of ring i by n: they were delivered before.
func (m *Merger) Expect(i int, n uint64) { m.rings[i].advance += n }
