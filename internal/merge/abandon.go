package merge

import (
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// Abandon gives up everything that is held, and publishes tails behind it.
func (m *Merger) Abandon() {
	for i := range m.rings {
		m.giveUp(i)
	}
	m.round.end()
}

// Remove gives up everything that is held of ring i, publishes its tail behind it, and takes the ring out: those behind it move
// up. It must not be called between Begin and End.
func (m *Merger) Remove(i int) {
	m.giveUp(i)
	m.rings = slices.Delete(m.rings, i, i+1)
	m.round.end()
}

func (m *Merger) giveUp(i int) {
	m.release()
	r := &m.rings[i]
	for _, c := range r.chunks {
		m.arena.put(c)
	}
	r.main, r.early, r.odd, r.chunks = queue[raw.Mark]{}, queue[raw.Mark]{}, queue[raw.Odd]{}, nil
	r.endRound()
	m.free(i, r.scan)
}

// Advance returns how many losses of ring i were added by Lose, or Expect, that no record has reported yet.
func (m *Merger) Advance(i int) uint64 { return m.rings[i].advance }

// Expect cuts the next records that report losses of ring i by n: they were delivered before.
func (m *Merger) Expect(i int, n uint64) { m.rings[i].advance += n }
