package top

import (
	"maps"
	"sync"

	"github.com/ringfold/ringfold/perfbuf"
)

// picks notes what a perfbuf.Schedule chooses. Stats does not say; a Schedule of one's own can.
// It is asked by passes in which two or more rings have something to be read. Ordered streams ask no Schedule. Of several readers,
// which each have rings of the same CPUs, its counts say nothing.
type picks struct {
	schedule perfbuf.Schedule

	mu    sync.Mutex // the view looks while a pass asks
	first map[int]uint64
	last  int
}

func newPicks(schedule perfbuf.Schedule) *picks {
	return &picks{schedule: schedule, first: map[int]uint64{}, last: noCPU}
}

// noCPU stands for none.
const noCPU = -1

// order is that Schedule, which notes what it chooses.
func (p *picks) order(loads []perfbuf.Load) {
	p.mu.Lock() // several readers may ask at a time
	p.schedule(loads)
	p.last = loads[0].CPU
	p.first[p.last]++
	p.mu.Unlock()
}

// counts returns how often each CPU's ring came first, and which was the latest to do so.
func (p *picks) counts() (first map[int]uint64, last int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.first), p.last
}
