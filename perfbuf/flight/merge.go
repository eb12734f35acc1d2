package flight

import (
	"math"
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// Merge returns one snapshot of what several recorders have recorded, such as perf event arrays and
// BPF ring buffers, in one order of time. It has every event of all of them from the latest
// CompleteSince to the earliest Until, so take the snapshots one right after the other. It takes
// them over: they are empty afterwards, as after [Snapshot.Release]. It does not block.
func Merge(snapshots ...*Snapshot) *Snapshot {
	snapshots = slices.DeleteFunc(slices.Clone(snapshots), func(s *Snapshot) bool { return s.released.Swap(true) })
	if len(snapshots) == 0 {
		return &Snapshot{since: 1, release: func() {}}
	}
	m, latest := &Snapshot{until: math.MaxUint64}, uint64(math.MaxUint64)
	for _, s := range snapshots {
		m.copies, m.rings = append(m.copies, s.copies...), append(m.rings, s.rings...)
		m.since, m.until = max(m.since, s.since), min(m.until, s.until)
		for _, c := range s.copies {
			latest = min(latest, c.until)
		}
	}
	m.since = min(m.since, m.until+1)
	rings := m.rings
	for _, s := range snapshots {
		for _, c := range s.copies {
			c.until = latest
			c.keep(s.from(m.since))
			rings[0].Since, rings[0].Events = min(rings[0].Since, m.until+1), len(c.places)
			m.events += len(c.places)
			rings = rings[1:]
		}
	}
	m.release = func() {
		for _, s := range snapshots {
			s.release()
		}
	}
	return m
}

// inOrder iterates over the records of all copies in order of time, then in the order of the
// copies. An event lives until the loop's body ends.
func inOrder(copies []*ringCopy) func(yield func(raw.Event) bool) {
	return func(yield func(raw.Event) bool) {
		var single raw.Single
		defer single.Expire()
		h := make(heap, 0, len(copies))
		for i, c := range copies {
			if len(c.places) > 0 {
				h = append(h, cursor{time: c.timeAt(c.places[0]), copy: c, rank: i})
			}
		}
		for i := len(h)/2 - 1; i >= 0; i-- {
			h.down(i)
		}
		for len(h) > 0 {
			top := &h[0]
			ok := yield(top.copy.event(top.copy.places[top.next], &single))
			single.Expire()
			if !ok {
				return
			}
			if top.next++; top.next < len(top.copy.places) {
				top.time = top.copy.timeAt(top.copy.places[top.next])
			} else {
				h[0] = h[len(h)-1]
				h = h[:len(h)-1]
			}
			h.down(0)
		}
	}
}

// cursor is the next record of a copy.
type cursor struct {
	time uint64
	copy *ringCopy
	rank int
	next int // of its places
}

// heap has the cursor that is next on top.
type heap []cursor

func (h heap) less(i, j int) bool {
	return h[i].time < h[j].time || h[i].time == h[j].time && h[i].rank < h[j].rank
}

func (h heap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
