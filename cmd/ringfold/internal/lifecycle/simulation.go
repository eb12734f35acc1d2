package lifecycle

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
)

// SimulationOptions say which host to make up. The zero value is good.
type SimulationOptions struct {
	CPUs   int     // 0 is 2
	Seed   uint64  // another one makes up other processes
	Rate   float64 // events per second, on average; 0 is 50
	Events uint64  // nothing happens after so many; 0 is no limit
}

// Simulation is a made-up host. It outputs what the programs of lifecycle.bpf.c would, on a kernel
// that is simulated in this process. The rest is as for a real host: the rings, their reader, and the
// clock, which is [perfbuf.Now].
//
// Its CPUs are interrupted, as real ones are, between taking an event's time and publishing it, and
// for milliseconds, as a virtual machine's are.
type Simulation struct {
	o      SimulationOptions
	kernel *perfbuftest.Kernel
	busy   []chan struct{} // by CPU: full while a program runs. No mutex: synctest's clock stands still for those

	mu       sync.Mutex // held to begin a program, so that none begins after Detach
	attached bool
	since    uint64
	begun    uint64

	life context.Context
	end  context.CancelFunc
	all  sync.WaitGroup
}

// NewSimulation makes a host on which nothing happens yet.
func NewSimulation(o SimulationOptions) *Simulation {
	if o.CPUs == 0 {
		o.CPUs = 2
	}
	if o.Rate == 0 {
		o.Rate = 50
	}
	s := &Simulation{o: o, kernel: perfbuftest.New(perfbuftest.Options{CPUs: o.CPUs, RealTime: true, Start: time.Duration(perfbuf.Now())})}
	for range o.CPUs {
		s.busy = append(s.busy, make(chan struct{}, 1))
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Open sets up rings for the events. Do it before Attach, as for a [Probe].
func (s *Simulation) Open(o perfbuf.Options) (*perfbuf.Reader, error) { return s.kernel.Open(o) }

// Attach starts the flow of events.
func (s *Simulation) Attach() error {
	s.since = s.kernel.Now()
	s.attach(true)
	s.live()
	return nil
}

// Since returns when Attach began the flow.
func (s *Simulation) Since() uint64 { return s.since }

// Detach ends it. A program may still be running on another CPU then.
func (s *Simulation) Detach() error {
	s.attach(false)
	return nil
}

func (s *Simulation) attach(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached = on
}

// Close ends all life, and waits for that.
func (s *Simulation) Close() {
	s.attach(false)
	s.end()
	s.all.Wait()
}

// Counts returns how many events were put into the rings, and how many found them full. The counts are final after
// Close, if that came before the reader's.
func (s *Simulation) Counts() (written, lost uint64) {
	for cpu := range s.o.CPUs {
		c := s.kernel.Counts(cpu)
		written, lost = written+c.Written, lost+c.Lost
	}
	return written, lost
}

// begin starts a program, unless it is detached or there were enough.
func (s *Simulation) begin(cpu int) *perfbuftest.Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.attached || s.o.Events > 0 && s.begun == s.o.Events {
		return nil
	}
	s.begun++
	return s.kernel.Begin(cpu)
}

// output runs a program on a CPU for each event, one right after the other.
func (s *Simulation) output(cpu int, r *rand.Rand, events ...Event) {
	s.busy[cpu] <- struct{}{}
	defer func() { <-s.busy[cpu] }()
	for _, e := range events {
		p := s.begin(cpu)
		if p == nil {
			return
		}
		p.Prepare(Encode(e))
		// A hypervisor does this to a virtual machine's CPU some times a second: it runs another one now.
		if len(events) == 1 && r.Float64() < min(1./50, 3/s.o.Rate) {
			s.sleep(time.Duration(2+r.IntN(10)) * time.Millisecond)
		}
		if p.Reserve() == nil { // else the ring is full, which the kernel counts and reports
			p.Copy()
			p.Publish()
		}
		p.End()
	}
}

// sleep returns false when life ends.
func (s *Simulation) sleep(d time.Duration) bool {
	select {
	case <-s.life.Done():
	case <-time.After(d):
	}
	return s.life.Err() == nil
}
