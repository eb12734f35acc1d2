package ringtest_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// simulation is a Kernel and a reader of it in one goroutine, so that a seed says everything:
// wherever the reader yields, CPUs make some steps.
type simulation struct {
	*ringtest.Kernel
	rnd     *rand.Rand
	clock   uint64
	buffer  *ringtest.Buffer
	barrier *grace.Barrier
	reader  *perfbuf.Reader
	stop    bool // begin nothing more

	nextID  uint64
	written map[uint64]uint64 // times of undelivered records, by id
	lost    uint64
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{rnd: rand.New(rand.NewPCG(seed, 0)), clock: 1 << 40, written: map[uint64]uint64{}}
	s.Kernel = ringtest.NewKernel(3, func(int) uint64 { return s.clock - s.rnd.Uint64N(grace.DefaultGuard+1) })
	s.Settled = func(_ int, time uint64, payload []byte, err error) {
		switch id, _ := ringtest.Check(payload); err {
		case nil:
			s.written[id] = time
		case syscall.ENOSPC:
			s.lost++
		}
	}
	s.buffer = s.NewBuffer()
	s.buffer.Start = []uint64{0, 1<<32 - 512, 1<<64 - 512}[seed%3]
	var err error
	s.reader, err = perfbuf.OpenSource(stepped{s.buffer, s}, perfbuf.Options{RingBytes: 4096, Wakeup: perfbuf.Wakeup{Events: 1}})
	require.NoError(t, err)
	return s
}

// stepped is the simulation as a reader sees it.
type stepped struct {
	*ringtest.Buffer
	s *simulation
}

func (k stepped) Open(setup kernel.Setup) (kernel.Kernel, error) {
	_, err := k.Buffer.Open(setup)
	return k, err
}

func (k stepped) Now() uint64            { return k.s.clock }
func (k stepped) Yield() bool            { k.s.yield(); return true }
func (k stepped) Drive(b *grace.Barrier) { k.s.barrier = b }

func (k stepped) Grace(grace.Options) (grace.Provider, error) {
	p := ringtest.Provider(func() error {
		for g := k.s.Grace(); !g.Over(); {
			k.s.step()
		}
		return nil
	})
	return p, p.Wait()
}

// yield lets CPUs and the barrier's thread run.
func (s *simulation) yield() {
	s.buffer.Poison()
	for range s.rnd.IntN(30) {
		s.step()
	}
	if s.barrier != nil && s.barrier.Requested() && s.rnd.IntN(8) == 0 {
		s.barrier.Round() // fails only if it is closed
	}
}

// step lets one CPU make one step.
func (s *simulation) step() {
	s.clock += s.rnd.Uint64N(20)
	cpu := s.rnd.IntN(s.CPUs())
	running, preempted := s.Running(cpu), s.Preempted(cpu)
	if len(running) == 0 {
		switch {
		case len(preempted) > 0 && (s.stop || s.rnd.IntN(3) == 0):
			preempted[s.rnd.IntN(len(preempted))].Resume()
		case !s.stop:
			s.Begin(cpu)
		}
		return
	}
	p := running[len(running)-1]
	switch {
	case p.Context() < ringtest.NMI && !s.stop && s.rnd.IntN(16) == 0:
		s.BeginIn(cpu, p.Context()+1+ringtest.Context(s.rnd.IntN(int(ringtest.NMI-p.Context()))))
	case p.Outputs():
		p.Step()
	case s.rnd.IntN(4) == 0:
		p.End()
	case p.Context() == ringtest.Task && s.rnd.IntN(8) == 0:
		p.Preempt()
	default:
		s.nextID++
		p.Prepare(ringtest.Payload(s.nextID, 12+s.rnd.IntN(100)))
	}
}

// In exact mode nothing is late for any seed, and nothing is missing at the end.
func TestSimulatedExactStream(t *testing.T) {
	for seed := range uint64(3) {
		s := newSimulation(t, seed)
		stream, err := s.reader.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		require.NotNil(t, s.barrier)
		var last, lost uint64
		got := 0
		deliver := func(ev perfbuf.Event) error {
			if ev.Late() || ev.Time() < last {
				return fmt.Errorf("%v of time %d after %d", ev.Kind(), ev.Time(), last)
			}
			last = ev.Time()
			lost += ev.Lost()
			if ev.Kind() == perfbuf.KindSample {
				got++
				id, err := ringtest.Check(ev.Bytes())
				if err != nil {
					return err
				}
				if time, ok := s.written[id]; !ok || time != ev.Time() {
					return fmt.Errorf("sample %d has time %d, was written at %d (%v)", id, ev.Time(), time, ok)
				}
				delete(s.written, id)
			}
			s.yield()
			return nil
		}
		for range 100 {
			s.yield()
			require.NoError(t, stream.ForEach(deliver), "seed %d", seed)
		}
		require.Greater(t, got, 100)
		s.stop = true
		for g := s.Grace(); !g.Over(); {
			s.step()
		}
		require.NoError(t, stream.ForEachPending(deliver), "seed %d", seed)
		require.Empty(t, s.written)
		require.Equal(t, s.lost, lost)
		require.NoError(t, stream.Close())
		require.NoError(t, s.reader.Close())
	}
}
