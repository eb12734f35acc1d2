package merge

import "github.com/ringfold/ringfold/internal/raw"

// Abandon gives up everything that is held, and publishes tails behind it.
func (m *Merger) Abandon() {
	m.release()
	for i := range m.rings {
		r := &m.rings[i]
		for _, c := range r.chunks {
			m.arena.put(c)
		}
		r.main, r.early, r.odd, r.chunks = queue[raw.Mark]{}, queue[raw.Mark]{}, queue[raw.Odd]{}, nil
		r.endRound()
		m.free(i, r.scan)
	}
	m.round.end()
}

// Advance returns how many losses of ring i were added by Lose, or Expect, that no record has reported yet.
func (m *Merger) Advance(i int) uint64 { return m.rings[i].advance }

// Expect cuts the next records that report losses of ring i by n: they were delivered before.
func (m *Merger) Expect(i int, n uint64) { m.rings[i].advance += n }
