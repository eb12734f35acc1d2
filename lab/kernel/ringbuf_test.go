//go:build linux && cgo

package kernel_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func openRings(t testing.TB, fd int, o perfbuf.Options) *perfbuf.Reader {
	t.Helper()
	if o.Time == (perfbuf.TimeSource{}) {
		o.Time = perfbuf.PayloadTime(kerneltest.RingTimeAt)
	}
	r, err := perfbuf.OpenRingBuf(fd, o)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// A BPF ring buffer is read in all the ways that there are, while all CPUs output, and says the
// same of its events. A record may be reserved and not yet submitted when a reader comes there.
func TestKernelRingBufWaysOfReading(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 1 << 20})
	r := openRings(t, e.MapFD(), perfbuf.Options{CPU: perfbuf.PayloadCPU(kerneltest.RingCPUAt)})
	cpus := kerneltest.OnlineCPUs(t)
	run := (*perfbuf.Stream).Run
	for name, c := range map[string]struct {
		open func(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream
		read func(s *perfbuf.Stream, ctx context.Context, f func(perfbuf.Event) error) error
	}{
		"Run":           {unordered, run},
		"Run in order":  {exact, run},
		"Run of a ring": {func(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream { return ofRing(t, r.Rings()[0]) }, run},
		"RunBatches": {unordered, func(s *perfbuf.Stream, ctx context.Context, f func(perfbuf.Event) error) error {
			return s.RunBatches(ctx, func(b *perfbuf.Batch) error {
				for ev := range b.Events() {
					if err := f(ev); err != nil {
						return err
					}
				}
				return nil
			})
		}},
		"Events": {unordered, func(s *perfbuf.Stream, ctx context.Context, f func(perfbuf.Event) error) error {
			for ev, err := range s.Events(ctx) {
				if err == nil {
					err = f(ev)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			const each = 700
			count := each * len(cpus)
			for _, cpu := range cpus {
				background(t, func() {
					for i := range each {
						e.Emit(cpu, kerneltest.RingEmit{Count: 1, Size: 32 + i})
					}
				})
			}
			n := 0
			s := c.open(t, r)
			defer s.Close()
			err := c.read(s, t.Context(), func(ev perfbuf.Event) error {
				p, err := kerneltest.CheckRing(ev.Bytes())
				require.NoError(t, err)
				require.Equal(t, p.Time, ev.Time())
				require.EqualValues(t, p.CPU, ev.CPU())
				require.Equal(t, "shared", ev.Source())
				if n++; n == count {
					return perfbuf.ErrStop
				}
				return nil
			})
			if name != "Events" {
				require.NoError(t, err)
			}
			require.Equal(t, count, n)
		})
	}
	require.Zero(t, r.Stats().Total().Lost)
	require.ErrorIs(t, r.Pause(), errors.ErrUnsupported)
	s := unordered(t, r)
	require.NoError(t, s.Shutdown(t.Context(), func(perfbuf.Event) error { return nil }))
	<-r.Done()
	require.Equal(t, os.ErrClosed, s.Wait(t.Context()))
}

// A perf event array, a ring buffer of all CPUs, one per CPU, and one whose records are stamped
// make one stream. No event of them is late, and each comes once.
func TestKernelMergeExact(t *testing.T) {
	e := kerneltest.Load(t)
	rings, stamped := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 1 << 20}), kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 1 << 20})
	perf := open(t, e, perfbuf.Options{RingBytes: 1 << 20})
	cpus := perf.Options().CPUs
	cpus = cpus[:min(4, len(cpus))] // rings have room for all that they output
	for _, cpu := range cpus {
		rings.SetShard(cpu, newMap(t, libbpfgo.MapTypeRingbuf, 0, 0, 1<<20).FileDescriptor())
	}
	shared, shards := openRings(t, rings.MapFD(), perfbuf.Options{}), openRings(t, rings.ShardsFD(), perfbuf.Options{})
	last := openRings(t, stamped.MapFD(), perfbuf.Options{Name: "stamped", Time: perfbuf.StampedTime(kerneltest.RingTimeAt), LanesFD: stamped.LanesFD()})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, perf, shared, shards, last)
	require.NoError(t, err)
	defer s.Close()

	const rounds, burst = 300, 7
	var emitters sync.WaitGroup
	for _, cpu := range cpus {
		emitters.Go(func() {
			for range rounds {
				e.Emit(cpu, burst, 40)
				rings.Emit(cpu, kerneltest.RingEmit{Count: burst, Size: 48})
				rings.Emit(cpu, kerneltest.RingEmit{Count: burst, Size: 40, To: "shard"})
				stamped.Emit(cpu, kerneltest.RingEmit{Count: burst, Stamped: true})
			}
		})
	}
	want, n, before := 4*rounds*burst*len(cpus), 0, uint64(0)
	from := map[string]int{}
	require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
		require.Equal(t, perfbuf.KindSample, ev.Kind(), ev)
		require.False(t, ev.Late())
		require.GreaterOrEqual(t, ev.Time(), before)
		before = ev.Time()
		from[ev.Source()]++
		if n++; n == want {
			return perfbuf.ErrStop
		}
		return nil
	}))
	emitters.Wait()
	for _, r := range []*perfbuf.Reader{perf, shared, shards, last} {
		require.Equal(t, want/4, from[r.Options().Name])
		st := r.Stats()
		require.Zero(t, st.Late)
		require.EqualValues(t, want/4, st.Total().Samples)
	}
	require.NoError(t, s.Shutdown(t.Context(), func(ev perfbuf.Event) error { return errors.New(ev.String()) }))
}

// Stamped ring buffers alone need no barrier.
func TestKernelStampedNeedsNoBarrier(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	r := openRings(t, e.MapFD(), perfbuf.Options{Time: perfbuf.StampedTime(kerneltest.RingTimeAt)})
	s := exact(t, r)
	for range 100 {
		e.Emit(0, kerneltest.RingEmit{Count: 1, Stamped: true})
		require.NoError(t, s.Run(t.Context(), func(perfbuf.Event) error { return perfbuf.ErrStop }))
	}
	require.Empty(t, r.Stats().Barrier.Provider)
	require.NoError(t, s.Close())
}

// A reserved record holds a stamped stream back until it is submitted. It holds no other stream
// back: a barrier has waited for its commit.
func TestKernelBusyRecord(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Hold: true})
	for name, source := range map[string]perfbuf.TimeSource{"stamped": perfbuf.StampedTime(kerneltest.RingTimeAt), "payload": perfbuf.PayloadTime(kerneltest.RingTimeAt)} {
		t.Run(name, func(t *testing.T) {
			r := openRings(t, e.MapFD(), perfbuf.Options{Time: source})
			s := exact(t, r)
			defer s.Close()
			release := e.Hold(false)
			e.Emit(0, kerneltest.RingEmit{Count: 3, Stamped: true})
			n := 0
			count := func(want int) func(perfbuf.Event) error {
				return func(ev perfbuf.Event) error {
					if n++; n == want {
						return perfbuf.ErrStop
					}
					return nil
				}
			}
			if name == "payload" {
				require.NoError(t, s.Run(t.Context(), count(3)))
			} else {
				require.NoError(t, s.ForEach(count(4)))
				require.Zero(t, n)
			}
			release()
			require.NoError(t, s.Run(t.Context(), count(4)))
			require.Equal(t, 4, n)
			require.Equal(t, map[string]uint64{"stamped": 0, "payload": 1}[name], r.Stats().Late, "a program that sleeps is beyond grace periods")
		})
	}
}

// A waiting stream gives discarded records back, though it has nothing to deliver, and the next
// record wakes it: it never polls here.
func TestKernelDiscards(t *testing.T) {
	for name, source := range map[string]perfbuf.TimeSource{"stamped": perfbuf.StampedTime(kerneltest.RingTimeAt), "payload": perfbuf.PayloadTime(kerneltest.RingTimeAt)} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 4096})
			r := openRings(t, e.MapFD(), perfbuf.Options{Time: source, Wakeup: perfbuf.Wakeup{PollInterval: 1000 * time.Hour}})
			s := openStream(t, r, perfbuf.StreamOptions{Spill: perfbuf.Spill{Bytes: -1}})
			events := make(chan struct{})
			ended := background(t, func() {
				require.NoError(t, s.Run(t.Context(), func(perfbuf.Event) error { close(events); return perfbuf.ErrStop }))
			})
			for range 4096/(8+kerneltest.StampedSize)/3 + 1 { // more than fit
				e.Emit(0, kerneltest.RingEmit{Count: 3, Stamped: true, Every: 1})
				for r.Rings()[0].Used() > 0 {
					time.Sleep(100 * time.Microsecond)
				}
			}
			e.Emit(0, kerneltest.RingEmit{Count: 1, Stamped: true})
			<-events
			<-ended
			_, refused := e.Counts(0)
			require.Zero(t, refused)
		})
	}
}

// What a full ring buffer refuses comes as events, with their CPU, in streams and without order.
func TestKernelRingBufLosses(t *testing.T) {
	for _, open := range []func(testing.TB, *perfbuf.Reader) *perfbuf.Stream{unordered, ordered} {
		e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 4096})
		r := openRings(t, e.MapFD(), perfbuf.Options{LanesFD: e.LanesFD()})
		src := open(t, r)
		begin := perfbuf.Now()
		e.Emit(1, kerneltest.RingEmit{Count: 200, Size: 32})
		samples, lost := 0, uint64(0)
		for range 2 {
			for _, rec := range collect(t, src) {
				if rec.Kind == perfbuf.KindSample {
					samples++
					continue
				}
				require.Equal(t, perfbuf.KindLost, rec.Kind)
				require.Equal(t, 1, rec.CPU)
				require.Equal(t, "shared", rec.Source)
				require.GreaterOrEqual(t, rec.LostAfter, begin)
				require.LessOrEqual(t, rec.Time, perfbuf.Now())
				lost += rec.Lost
			}
		}
		require.EqualValues(t, 200, uint64(samples)+lost)
		require.NotZero(t, lost)
		st := r.Stats()
		require.Equal(t, lost, st.Total().Lost)
		require.EqualValues(t, 200, st.Outputs.Total().Attempted)
		require.NoError(t, r.Close())
		<-r.Done()
		require.Equal(t, lost, r.Stats().Total().Lost, "counted once")
	}
}

// Losses of shards are counted once, whichever CPU they are of.
func TestKernelShardLosses(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Shards: 2})
	for cpu := range 2 {
		e.SetShard(cpu, kerneltest.NewRingBuf(t, 4096))
	}
	r := openRings(t, e.ShardsFD(), perfbuf.Options{LanesFD: e.ShardLanesFD()})
	for cpu := range 2 {
		e.Emit(cpu, kerneltest.RingEmit{Count: 200, Size: 32, To: "shard"})
	}
	var lost [2]uint64
	for _, rec := range collect(t, unordered(t, r)) {
		if rec.Kind == perfbuf.KindLost {
			lost[rec.CPU] += rec.Lost
		}
	}
	require.NotZero(t, lost[0])
	require.NotZero(t, lost[1])
	require.NoError(t, r.Close())
	<-r.Done()
	require.Equal(t, lost[0]+lost[1], r.Stats().Total().Lost)
}

// Two readers of one ring buffer end their passes, in spite of each other's records, and notice
// each other.
func TestKernelTwoReadersOfARingBuf(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 4096})
	a, b := openRings(t, e.MapFD(), perfbuf.Options{}), openRings(t, e.MapFD(), perfbuf.Options{})
	ofA, ofB := unordered(t, a), unordered(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	load := background(t, func() {
		for i := 0; ctx.Err() == nil; i++ {
			e.Emit(0, kerneltest.RingEmit{Count: 2, Stamped: true, Every: 2})
			e.Emit(0, kerneltest.RingEmit{Count: 3, Size: 32 + i%200})
		}
	})
	other := background(t, func() {
		for ctx.Err() == nil {
			require.NoError(t, ofB.ForEach(nothing))
		}
	})
	for shared := func(r *perfbuf.Reader) uint64 { return r.Stats().Total().Shared }; shared(a) < 30 || shared(b) == 0; {
		require.NoError(t, ofA.ForEach(func(perfbuf.Event) error {
			runtime.Gosched()
			return perfbuf.ErrStop
		}))
	}
	cancel()
	<-load
	<-other
}

// Close drops nothing that the next reader gets.
func TestKernelRingBufLeft(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	r := openRings(t, e.MapFD(), perfbuf.Options{})
	e.Emit(0, kerneltest.RingEmit{Count: 5, Size: 40})
	require.NoError(t, unordered(t, r).ForEach(func(perfbuf.Event) error { return perfbuf.ErrStop }))
	shut(t, r)
	got := r.Stats().Total()
	require.Equal(t, []uint64{1, 0}, []uint64{got.Samples, got.Dropped})
	require.Len(t, collect(t, unordered(t, openRings(t, e.MapFD(), perfbuf.Options{}))), 4)
}

// A stream follows a ring buffer that is replaced time and again. What came before it was found may
// be late, and says so; nothing is lost.
func TestKernelShardReplaced(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Shards: 1})
	e.SetShard(0, kerneltest.NewRingBuf(t, 4096))
	r := openRings(t, e.ShardsFD(), perfbuf.Options{})
	s := exact(t, r)
	events := 0
	for replaced := range 4 {
		e.Emit(0, kerneltest.RingEmit{Count: 3, Size: 40, To: "shard"})
		e.SetShard(0, kerneltest.NewRingBuf(t, 4096))
		e.Emit(0, kerneltest.RingEmit{Count: 2, Size: 40, To: "shard"})
		require.NoError(t, s.Run(t.Context(), func(perfbuf.Event) error {
			if events++; events == 5*(replaced+1) {
				return perfbuf.ErrStop
			}
			return nil
		}))
	}
	require.NoError(t, r.Stats().Hotplug.Err)
	require.Len(t, r.Rings(), 5)
}
