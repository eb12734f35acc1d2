package demo

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
)

const simulatedCPUs = 4

// simulation is the source of made-up events: what the programs of lifecycle.bpf.c would output on a
// kernel that is simulated in this process. Everything behind the rings is the same as for real ones.
//
// Its CPUs are interrupted, as real ones are, between taking an event's time and publishing it, and
// for milliseconds, as a virtual machine's are.
type simulation struct {
	kernel *perfbuftest.Kernel
	seed   uint64
	cpus   []*simulatedCPU

	mu       sync.RWMutex // held to begin a program, so that none begins after detach
	attached bool

	quit chan struct{}
	once sync.Once
	all  sync.WaitGroup
}

// simulatedCPU runs one task at a time.
type simulatedCPU struct {
	*simulation
	id   int
	busy chan struct{} // full while it runs a task; no mutex, as for those synctest's clock does not go on
	luck *rand.Rand
}

func newSimulation(cpus int, seed uint64) *simulation {
	s := &simulation{
		kernel: perfbuftest.New(perfbuftest.Options{CPUs: cpus, RealTime: true}),
		seed:   seed,
		quit:   make(chan struct{}),
	}
	for id := range cpus {
		s.cpus = append(s.cpus, &simulatedCPU{simulation: s, id: id, busy: make(chan struct{}, 1), luck: s.random(-1 - id)})
	}
	return s
}

func (s *simulation) open(o perfbuf.Options) (*perfbuf.Reader, error) { return s.kernel.Open(o) }

func (s *simulation) now() uint64 { return s.kernel.Now() }

func (s *simulation) attach() error {
	s.mu.Lock()
	s.attached = true
	s.mu.Unlock()
	s.live()
	return nil
}

func (s *simulation) detach() error {
	s.mu.Lock()
	s.attached = false
	s.mu.Unlock()
	return nil
}

// close ends all life, and waits for that.
func (s *simulation) close() {
	s.once.Do(func() { close(s.quit) })
	s.all.Wait()
}

// random is a source of its own for each part of the simulation: whatever the others do, it says the
// same in each run.
func (s *simulation) random(part int) *rand.Rand { return rand.New(rand.NewPCG(s.seed, uint64(part))) }

// pause sleeps for up to twice d. It returns false when life ends.
func (s *simulation) pause(r *rand.Rand, d time.Duration) bool {
	t := time.NewTimer(time.Duration(r.Int64N(int64(2*d) + 1)))
	defer t.Stop()
	select {
	case <-s.quit:
		return false
	case <-t.C:
		return true
	}
}

// begin starts a program, unless it is detached.
func (c *simulatedCPU) begin() *perfbuftest.Program {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.attached {
		return nil
	}
	return c.kernel.Begin(c.id)
}

// output runs a program that outputs an event of a task that runs here.
func (c *simulatedCPU) output(e lifecycle.Event) {
	c.busy <- struct{}{}
	defer func() { <-c.busy }()
	p := c.begin()
	if p == nil {
		return
	}
	defer p.End()
	p.Prepare(lifecycle.Encode(e))
	c.stall()
	if p.Reserve() != nil {
		return // the ring is full, which the kernel counts and reports
	}
	p.Copy()
	p.Publish()
}

// stall is what a hypervisor does to a virtual machine's CPU: it may run another's now.
func (c *simulatedCPU) stall() {
	if c.luck.IntN(50) == 0 {
		time.Sleep(time.Duration(2+c.luck.IntN(10)) * time.Millisecond)
	}
}

// burst outputs events one right after the other, each from a program of its own.
func (c *simulatedCPU) burst(events []lifecycle.Event) {
	var encoded [][]byte
	for _, e := range events {
		encoded = append(encoded, lifecycle.Encode(e))
	}
	c.busy <- struct{}{}
	defer func() { <-c.busy }()
	for _, b := range encoded {
		if p := c.begin(); p != nil {
			_ = p.Output(b) // fails when the ring is full
			p.End()
		}
	}
}
