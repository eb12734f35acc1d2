//go:build linux && cgo

package main

import (
	"context"
	"slices"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
)

// settling is how long to look again where accounts do not hold: a program may have counted an
// attempt, but not yet its outcome.
const settling = 10 * time.Second

// settle holds accounts of the generations since the last time against each other, once the counts
// of all are final.
func (s *session) settle(m *modeResult) error {
	for _, g := range s.group {
		if err := g.wait(context.Background()); err != nil {
			return err
		}
	}
	var lives []life
	for deadline := time.Now().Add(settling); ; {
		seen, err := s.p.Counts()
		if err != nil {
			return err
		}
		lives = lives[:0]
		for _, g := range s.group {
			lives = append(lives, g.life(s.c.hotplug))
		}
		since := make([]workload.CPUCounts, len(seen))
		for cpu := range seen {
			since[cpu] = seen[cpu].Since(&s.base[cpu])
		}
		wrong := check(s.l, lives, since, s.exact)
		if len(wrong) == 0 || time.Now().After(deadline) {
			for _, w := range wrong {
				s.l.violate("%s: %s", m.Mode, w)
			}
			m.Conserved = m.Conserved && len(wrong) == 0
			m.add(s.l, s.group, lives, since)
			s.base = seen
			break
		}
		m.Unsettled++
		time.Sleep(time.Millisecond)
	}
	s.l.settled()
	s.final(m)
	for i, g := range s.group {
		g.rings = lives[i].stats.Rings
	}
	s.before, s.group = s.group, nil
	return nil
}

// final checks that the counts of earlier generations have not changed.
func (s *session) final(m *modeResult) {
	for _, g := range s.before {
		if now := g.r.Stats().Rings; !slices.Equal(now, g.rings) {
			s.l.violate("%s: counts were final, and have changed: from %+v to %+v", m.Mode, g.rings, now)
		}
	}
}
