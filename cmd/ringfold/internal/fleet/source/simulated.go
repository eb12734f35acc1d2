package source

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
)

// SimulatedOptions say what host to make up. The zero value is good.
type SimulatedOptions struct {
	CPUs      int     // 0 is 2
	Seed      uint64  // what happens depends on it; when, on this machine too
	Rate      float64 // events a second, about; 0 is 50
	Events    uint64  // then nothing happens any more; 0 is no limit
	RingBytes int     // 0 is perfbuf's default
}

// Simulated is a made-up host: what the programs of lifecycle.bpf.c would output on a kernel that is simulated in this process.
// Everything behind the rings is the same as for a real one. Its clock is this machine's CLOCK_MONOTONIC.
//
// Its CPUs are interrupted, as real ones are, between taking an event's time and publishing it, and
// for milliseconds, as a virtual machine's are.
type Simulated struct {
	o      SimulatedOptions
	kernel *perfbuftest.Kernel
	busy   []chan struct{} // by CPU: full while a program runs there
	tokens chan struct{}   // of capacity Events; nil without a limit

	mu       sync.RWMutex // held to begin a program, so that none begins after Detach
	attached bool

	quit chan struct{}
	once sync.Once
	all  sync.WaitGroup
}

// NewSimulated makes a host on which nothing happens yet.
func NewSimulated(o SimulatedOptions) *Simulated {
	if o.CPUs == 0 {
		o.CPUs = 2
	}
	if o.Rate == 0 {
		o.Rate = 50
	}
	s := &Simulated{
		o:      o,
		kernel: perfbuftest.New(perfbuftest.Options{CPUs: o.CPUs, RealTime: true, Start: time.Duration(perfbuf.Now())}),
		quit:   make(chan struct{}),
	}
	for range o.CPUs {
		s.busy = append(s.busy, make(chan struct{}, 1))
	}
	if o.Events > 0 {
		s.tokens = make(chan struct{}, o.Events)
	}
	return s
}

func (s *Simulated) Open() (*perfbuf.Reader, error) {
	return s.kernel.Open(perfbuf.Options{RingBytes: s.o.RingBytes})
}

func (s *Simulated) Attach() error {
	s.mu.Lock()
	s.attached = true
	s.mu.Unlock()
	s.live()
	return nil
}

func (s *Simulated) Detach() error {
	s.mu.Lock()
	s.attached = false
	s.mu.Unlock()
	return nil
}

func (s *Simulated) Decode(ev perfbuf.Event, e *wire.Event) error { return decode(ev, e) }

func (s *Simulated) Now() uint64 { return s.kernel.Now() }

// Close ends all life, and waits for that.
func (s *Simulated) Close() {
	s.once.Do(func() { close(s.quit) })
	s.all.Wait()
}

// Counts is how many events were put into the rings, and how many found them full. It is final after Close.
func (s *Simulated) Counts() (written, lost uint64) {
	for cpu := range s.o.CPUs {
		c := s.kernel.Counts(cpu)
		written, lost = written+c.Written, lost+c.Lost
	}
	return written, lost
}

// begin starts a program, unless it is detached, or all has happened.
func (s *Simulated) begin(cpu int) *perfbuftest.Program {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.attached {
		return nil
	}
	if s.tokens != nil {
		select {
		case s.tokens <- struct{}{}:
		default:
			return nil
		}
	}
	return s.kernel.Begin(cpu)
}

// output runs a program on a CPU.
func (s *Simulated) output(cpu int, r *rand.Rand, e *lifecycle.Event) {
	s.busy[cpu] <- struct{}{}
	defer func() { <-s.busy[cpu] }()
	p := s.begin(cpu)
	if p == nil {
		return
	}
	defer p.End()
	p.Prepare(lifecycle.Encode(*e))
	s.stall(r)
	if p.Reserve() != nil {
		return // the ring is full, which the kernel counts and reports
	}
	p.Copy()
	p.Publish()
}

// stall is what a hypervisor does to a virtual machine's CPU, some times a second: it may run another's now.
func (s *Simulated) stall(r *rand.Rand) {
	if r.Float64() < min(1./50, 3/s.o.Rate) {
		s.sleep(time.Duration(2+r.IntN(10)) * time.Millisecond)
	}
}

// sleep returns false when life ends.
func (s *Simulated) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.quit:
		return false
	case <-t.C:
		return true
	}
}
