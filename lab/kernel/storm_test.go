//go:build linux && cgo

package kernel_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

var stormSeed = flag.Uint64("storm-seed", 0, "of TestKernelStorm, which logs it; 0 is a random one")

// storm is one Reader, and all that many goroutines do to it at the same time.
type storm struct {
	t      *testing.T
	ctx    context.Context
	r      *perfbuf.Reader
	stream atomic.Pointer[perfbuf.Stream]
	order  perfbuf.Order
	events atomic.Int64
}

// check counts an event, and reads all of it: its memory has to be there.
func (s *storm) check(ev perfbuf.Event) error {
	if ev.Kind() == perfbuf.KindSample {
		s.events.Add(1)
		if _, err := kerneltest.Check(ev.Bytes()); err != nil {
			s.t.Error(err)
		}
	}
	return nil
}

// upTo returns a function for events that stops after some.
func (s *storm) upTo(n int) func(perfbuf.Event) error {
	return func(ev perfbuf.Event) error {
		if n--; n < 0 {
			return perfbuf.ErrStop
		}
		return s.check(ev)
	}
}

// soon is a context that is cancelled in a moment.
func (s *storm) soon(rnd *rand.Rand) context.Context {
	ctx, cancel := context.WithCancel(s.ctx)
	time.AfterFunc(time.Duration(rnd.Int64N(int64(3*time.Millisecond))), cancel)
	return ctx
}

// source opens a stream of all rings, or returns the one that there is.
func (s *storm) source() (*perfbuf.Stream, error) {
	if stream := s.stream.Load(); stream != nil {
		return stream, nil
	}
	stream, err := s.r.Stream(perfbuf.StreamOptions{Order: s.order, Spill: perfbuf.Spill{Bytes: 64 << 10}})
	if err == nil {
		s.stream.Store(stream)
	}
	return stream, err
}

// of makes an action of one that needs a stream of all rings.
func of(use func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error) action {
	return func(s *storm, rnd *rand.Rand) error {
		stream, err := s.source()
		if err != nil {
			return err
		}
		return use(s, stream, rnd)
	}
}

// ofRing makes an action of one that needs a stream of a ring. Now and then it leaves that open for
// a while.
func withRing(use func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error) action {
	return func(s *storm, rnd *rand.Rand) error {
		stream, err := s.ring(rnd).Stream()
		if err != nil {
			return err
		}
		err = use(s, stream, rnd)
		if rnd.IntN(2) == 0 {
			return errors.Join(err, stream.Close())
		}
		time.AfterFunc(time.Duration(rnd.Int64N(int64(time.Millisecond))), func() { stream.Close() })
		return err
	}
}

func (s *storm) ring(rnd *rand.Rand) *perfbuf.Ring {
	rings := s.r.Rings()
	return rings[rnd.IntN(len(rings))]
}

// A goroutine repeats an action. Actions that read the same rings collide: that is ErrBusy.
type action func(s *storm, rnd *rand.Rand) error

var controls = []action{
	func(s *storm, _ *rand.Rand) error { s.r.Stats(); return nil },
	func(s *storm, rnd *rand.Rand) error { s.ring(rnd).Used(); s.r.Options(); return nil },
	func(s *storm, _ *rand.Rand) error { return errors.Join(s.r.Pause(), s.r.Resume()) },
	of(func(s *storm, stream *perfbuf.Stream, _ *rand.Rand) error { return stream.Flush() }),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error { return stream.Wait(s.soon(rnd)) }),
}

var readers = []action{
	of(func(s *storm, stream *perfbuf.Stream, _ *rand.Rand) error { return stream.Run(s.ctx, s.check) }),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error { return stream.Run(s.soon(rnd), s.check) }),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error {
		return stream.Run(s.ctx, s.upTo(rnd.IntN(100)))
	}),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error {
		return stream.ForEach(s.upTo(rnd.IntN(100)))
	}),
	of(func(s *storm, stream *perfbuf.Stream, _ *rand.Rand) error { return stream.ForEachPending(s.check) }),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error {
		_, err := perfbuf.Fold(stream, 0, func(n int, ev perfbuf.Event) (int, error) { s.check(ev); return n, nil })
		return err
	}),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error {
		n := rnd.IntN(100)
		for ev, err := range stream.Events(s.soon(rnd)) {
			if err != nil {
				return err
			}
			if s.check(ev); n == 0 {
				break
			}
			n--
		}
		return nil
	}),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error {
		for _, err := range stream.Records(s.soon(rnd)) {
			if err != nil {
				return err
			}
		}
		return nil
	}),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error {
		return stream.Drain(s.soon(rnd), s.check)
	}),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error {
		return stream.RunBatches(s.soon(rnd), func(b *perfbuf.Batch) error {
			for ev := range b.Events() {
				s.check(ev)
			}
			return nil
		})
	}),
	of(func(s *storm, stream *perfbuf.Stream, _ *rand.Rand) error { // the next one opens another
		s.stream.CompareAndSwap(stream, nil)
		return stream.Close()
	}),
}

var rings = []action{
	withRing(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error { return stream.Wait(s.soon(rnd)) }),
	withRing(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error { return stream.Run(s.soon(rnd), s.check) }),
	withRing(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error {
		return stream.Run(s.soon(rnd), s.upTo(rnd.IntN(100)))
	}),
	withRing(func(s *storm, stream *perfbuf.Stream, _ *rand.Rand) error { return stream.ForEach(s.check) }),
	withRing(func(s *storm, stream *perfbuf.Stream, _ *rand.Rand) error { return stream.Flush() }),
}

// ends are the ways to end a Reader.
var ends = []action{
	func(s *storm, _ *rand.Rand) error { return s.r.Close() },
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error {
		return stream.Shutdown(s.soon(rnd), s.check)
	}),
	of(func(s *storm, stream *perfbuf.Stream, rnd *rand.Rand) error { // from within
		return stream.Run(s.soon(rnd), func(ev perfbuf.Event) error {
			s.r.Close()
			return s.check(ev)
		})
	}),
}

// expected reports whether an action may end with this error.
func expected(err error) bool {
	return err == nil || errors.Is(err, os.ErrClosed) || errors.Is(err, perfbuf.ErrBusy) || errors.Is(err, context.Canceled)
}

// run does actions until the reader is closed.
func (s *storm) run(rnd *rand.Rand, from []action) {
	for {
		err := from[rnd.IntN(len(from))](s, rnd)
		if !expected(err) {
			s.t.Error(err)
		}
		if s.r.Resume() == os.ErrClosed {
			return
		}
		if rnd.IntN(4) == 0 {
			time.Sleep(time.Duration(rnd.Int64N(int64(500 * time.Microsecond))))
		}
	}
}

// Close in the midst of everything else, from many goroutines, while all CPUs output: nothing
// faults, hangs, or stays behind.
func TestKernelStorm(t *testing.T) {
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-storm-seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	e := kerneltest.Load(t)
	leak.Check(t)
	first := open(t, e, perfbuf.Options{})
	require.NoError(t, first.Close())
	stop := load(t, e, first.Options().CPUs, 300, 100*time.Microsecond)
	began, rounds, events := time.Now(), 0, int64(0)
	// A starved machine may see none in 4 s
	for ; events == 0 || rounds < 300 && time.Since(began) < 4*time.Second; rounds++ {
		wakeup := []perfbuf.Wakeup{{}, {Events: 1}, {Bytes: 2048}, {PollInterval: time.Millisecond}}[rnd.IntN(4)]
		r := open(t, e, perfbuf.Options{RingBytes: 4096 << rnd.IntN(4), Wakeup: wakeup})
		ctx, cancel := context.WithCancel(t.Context())
		s := &storm{t: t, ctx: ctx, r: r, order: []perfbuf.Order{{}, perfbuf.Slack(100 * time.Microsecond), perfbuf.Unordered()}[rnd.IntN(3)]}
		kind := [][]action{readers, rings, slices.Concat(readers, rings)}[rnd.IntN(3)]
		var wg sync.WaitGroup
		for i := range 2 + rnd.IntN(6) {
			from := kind
			if i%2 == 1 {
				from = controls
			}
			own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			wg.Go(func() { s.run(own, from) })
		}
		after := time.Duration(rnd.Int64N(int64(10 * time.Millisecond)))
		own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		wg.Go(func() {
			time.Sleep(after)
			for range 1 + own.IntN(3) {
				if err := ends[own.IntN(len(ends))](s, own); !expected(err) {
					t.Error(err)
				}
			}
			r.Close()
		})
		wg.Wait()
		cancel()
		require.Equal(t, os.ErrClosed, r.Resume())
		r.Stats()
		events += s.events.Load()
	}
	stop()
	t.Logf("%d rounds, %d events", rounds, events)
	requireUnhooked(t, e, first.Options().CPUs, syscall.ENOENT)
}

// All CPUs output as fast as they can, of random sizes, into rings large and small.
// Whatever the reader cannot keep up with, not one output is unaccounted for.
func TestKernelStress(t *testing.T) {
	const runFor = 400 * time.Millisecond
	for name, c := range map[string]struct {
		opts  perfbuf.Options
		pause time.Duration // of the emitters
	}{
		"small":     {perfbuf.Options{RingBytes: 8 << 10}, 0},
		"large":     {perfbuf.Options{RingBytes: 1 << 20}, 0},
		"watermark": {perfbuf.Options{RingBytes: 64 << 10, Wakeup: perfbuf.Wakeup{Bytes: 16 << 10}}, 0},
		"paced":     {perfbuf.Options{RingBytes: 1 << 20}, 200 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			eachSource(t, c.opts, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
				stop := load(t, e, r.Options().CPUs, 3000, c.pause)
				l := newLedger(t)
				late, last := uint64(0), uint64(0)
				add := func(ev perfbuf.Event) error {
					if src.Options().Order != perfbuf.Unordered() {
						if ev.Late() {
							late++
						} else if ev.Time() < last {
							t.Errorf("%v of CPU %d is %d ns before the event before, and not marked", ev.Kind(), ev.CPU(), last-ev.Time())
						}
						last = max(last, ev.Time())
					}
					return l.add(ev)
				}
				over := errors.New("over")
				ctx, cancel := context.WithTimeoutCause(t.Context(), runFor, over)
				defer cancel()
				require.Equal(t, over, src.Run(ctx, add))
				stop()
				require.NoError(t, src.ForEach(add))
				for _, ring := range r.Rings() {
					e.Emit(ring.CPU(), 1, 24) // reports the losses
				}
				require.NoError(t, src.ForEach(add))
				l.balance(e, r)
				stats := r.Stats()
				require.Equal(t, late, stats.Late)
				require.Zero(t, stats.Inversions)
				require.Zero(t, stats.Total().Used)
				t.Logf("%d delivered, %d lost, %d late, %d passes, %d wakes", l.delivered(), l.lost(), late, stats.Passes, stats.Wakes)
			})
		})
	}
}
