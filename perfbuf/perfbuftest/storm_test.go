package perfbuftest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// stormKernel has several perf event arrays, to which programs on all CPUs output numbers as fast
// as the machine can.
type stormKernel struct {
	*ringtest.Kernel
	t *testing.T
}

func newStormKernel(t *testing.T) *stormKernel {
	start := time.Now()
	k := &stormKernel{ringtest.NewKernel(2, func(int) uint64 { return uint64(time.Hour + time.Since(start)) }), t}
	var over atomic.Bool
	var programs sync.WaitGroup
	t.Cleanup(func() { over.Store(true); programs.Wait() })
	for cpu := range k.CPUs() {
		programs.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(cpu)))
			for n := uint64(0); !over.Load(); n++ {
				p := k.Begin(cpu)
				p.Array = rnd.IntN(ringtest.Arrays)
				p.Output(binary.NativeEndian.AppendUint64(nil, n)) // may fail
				p.End()
				if rnd.IntN(20) == 0 {
					time.Sleep(time.Duration(rnd.IntN(100)) * time.Microsecond)
				}
			}
		})
	}
	return k
}

func (k *stormKernel) open(array int) *perfbuf.Reader {
	b := k.NewBuffer()
	b.Array = array
	r, err := perfbuf.OpenSource(b, perfbuf.Options{Name: strconv.Itoa(array), RingBytes: 4096})
	if err != nil {
		k.t.Error(err) // FailNow is for the test's own goroutine
	}
	return r
}

// come adds and removes a source some times, and calls any method that is allowed from any
// goroutine.
func (k *stormKernel) come(s *perfbuf.Stream, array int, rnd *rand.Rand) {
	for range 200 {
		r := k.open(array)
		if err := s.Add(r); err != nil {
			k.t.Error("Add:", err)
		}
		for range rnd.IntN(100) {
			runtime.Gosched()
		}
		switch rnd.IntN(6) {
		case 0:
			s.Flush()
		case 1:
			r.Resume()
		case 2:
			r.Pause()
		case 3:
			r.Stats()
		}
		if err := s.Remove(r); err != nil {
			k.t.Error("Remove:", err)
		}
		for alone := rnd.IntN(2) == 0; alone; { // else close it while in use
			own, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
			if err == nil {
				err = own.ForEach(func(perfbuf.Event) error { return perfbuf.ErrStop })
			}
			if alone = errors.Is(err, perfbuf.ErrBusy); !alone && err != nil {
				k.t.Error("given back:", err)
			}
			runtime.Gosched()
		}
		r.Close()
	}
}

// Several goroutines add, remove, close and reopen sources while another one runs the stream. The
// stream is undisturbed, loses nothing of the source that stays, and ends properly.
func TestStorm(t *testing.T) {
	k := newStormKernel(t)
	for round := range uint64(6) {
		stays := k.open(0)
		order := []perfbuf.Order{{}, perfbuf.Slack(100 * time.Microsecond)}[round%2]
		s, err := stays.Stream(perfbuf.StreamOptions{Order: order, BarrierInterval: -1, FlushEvery: time.Millisecond})
		require.NoError(t, err)
		exact := order == (perfbuf.Order{})
		var last, watermark uint64
		next := map[int]uint64{}
		f := func(ev perfbuf.Event) error {
			w := s.Watermark()
			require.GreaterOrEqual(t, w, watermark)
			watermark = w
			if !ev.Late() && (exact || ev.Kind() != perfbuf.KindFlushed) { // slack: may be earlier
				require.GreaterOrEqual(t, ev.Time(), last)
				last = ev.Time()
			}
			if ev.Kind() == perfbuf.KindSample && exact {
				require.Equal(t, ev.Time() <= w || ev.Time() < last, ev.Late())
			}
			if ev.Source() == "0" {
				require.False(t, exact && ev.Late())
				if ev.Kind() == perfbuf.KindSample {
					n := binary.NativeEndian.Uint64(ev.Bytes())
					require.GreaterOrEqual(t, n, next[ev.CPU()])
					next[ev.CPU()] = n + 1
				}
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var changers sync.WaitGroup
		for array := 1; array < ringtest.Arrays; array++ {
			changers.Go(func() { k.come(s, array, rand.New(rand.NewPCG(round, uint64(array)))) })
		}
		go func() { changers.Wait(); cancel() }()
		require.ErrorIs(t, s.Run(ctx, f), context.Canceled)
		if round < 2 {
			require.NoError(t, s.Drain(t.Context(), f))
		}
		require.NoError(t, s.Shutdown(t.Context(), f))
		<-stays.Done()
		total := stays.Stats().Total()
		require.Zero(t, total.Dropped)
		require.NotZero(t, total.Samples)
	}
}
