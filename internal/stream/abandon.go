package stream

import (
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// abandon gives up all held records and publishes each tail behind them, or in front of the first
// busy record if there is one. The ring's next reader sees the records behind that one again.
func (m *merger) abandon() {
	m.release()
	for i := range m.rings {
		m.giveUp(i)
	}
	m.round.end()
}

// remove is Abandon of ring i alone, and stops merging it. The indices of the rings behind it shift
// down by one. It must not be called between begin and end. It returns how many samples were given
// up for good: no later reader sees them.
func (m *merger) remove(i int) (dropped uint64) {
	m.release()
	r := m.rings[i]
	dropped = uint64(r.samples() - r.within(r.settled(), r.scan))
	m.giveUp(i)
	m.rings = slices.Delete(m.rings, i, i+1)
	m.resize()
	return dropped
}

func (m *merger) giveUp(i int) {
	r := m.rings[i]
	for _, c := range r.chunks {
		m.arena.put(c)
	}
	r.main, r.early, r.odd, r.chunks = queue[raw.Mark]{}, queue[raw.Mark]{}, queue[raw.Odd]{}, nil
	r.dueMain, r.dueEarly, r.roundEarly = 0, 0, 0
	m.free(i, r.settled())
}
