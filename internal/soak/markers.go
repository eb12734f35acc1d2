//go:build linux && cgo

package main

import (
	"sync"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// markers compares each Flush with the programs' counts before the call: every earlier output to
// the reader must come before its marker.
type markers struct {
	mu      sync.Mutex
	pending []call
	floor   []workload.CPUCounts // as of when the present reader, or stream, was there

	calls, answered, checked uint64 // checked is how many counts were held against what had come
}

// call is one of Flush.
type call struct {
	at   uint64               // before it, by CLOCK_MONOTONIC
	seen []workload.CPUCounts // before that
}

// restart forgets calls whose markers need not come, because their events were dropped.
func (m *markers) restart(floor []workload.CPUCounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending, m.floor = nil, floor
}

// call notes that Flush is about to be called. seen was counted before.
func (m *markers) call(seen []workload.CPUCounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	m.pending = append(m.pending, call{perfbuf.Now(), seen})
}

// open is how many calls have had no answer.
func (m *markers) open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending)
}

// come takes a marker. It answers at least those calls that began before its time, which is that of
// the latest call that it answers, or that of an event with which all before are delivered.
func (m *markers) come(l *ledger, time uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for ; n < len(m.pending) && m.pending[n].at <= time; n++ {
		m.answered++
		m.check(l, m.pending[n].seen)
	}
	m.pending = m.pending[n:]
}

func (m *markers) check(l *ledger, seen []workload.CPUCounts) {
	for cpu := range seen {
		for level := range seen[cpu].Levels {
			last := seen[cpu].Levels[level].Last
			// What was attempted before the floor may have gone to another reader, or have been
			// dropped. What a source that was removed had may have been dropped.
			if last <= m.floor[cpu].Levels[level].Attempted || l.changing && (last-1)%uint64(len(mapNames)) != 0 {
				continue
			}
			m.checked++
			if next := l.accounts[cpu].levels[level].next; next < last {
				l.violate("CPU %d level %d: a marker comes before number %d, which had been output before Flush was called; the latest that came is %d",
					cpu, level, last-1, int64(next)-1)
			}
		}
	}
}
