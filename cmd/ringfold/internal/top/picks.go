package top

import (
	"maps"
	"sync"

	"github.com/ringfold/ringfold/perfbuf"
)

// picks notes what a perfbuf.Schedule chooses, which Stats does not say. Passes ask it if two or more rings have something to be
// read; ordered streams never do. Several readers, which each have rings of the same CPUs, make its counts worthless.
type picks struct {
	mu    sync.Mutex // the view looks while a pass asks
	first map[int]uint64
	last  int
}

func newPicks() *picks { return &picks{first: map[int]uint64{}, last: noCPU} }

// noCPU stands for none.
const noCPU = -1

// order is perfbuf.FullestFirst, and notes what it chooses.
func (p *picks) order(loads []perfbuf.Load) {
	p.mu.Lock() // several readers may ask at a time
	defer p.mu.Unlock()
	perfbuf.FullestFirst(loads)
	p.last = loads[0].CPU
	p.first[p.last]++
}

// counts returns how often each CPU's ring came first, and which was the latest to do so.
func (p *picks) counts() (first map[int]uint64, last int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.first), p.last
}
