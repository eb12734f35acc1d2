//go:build linux && cgo

package kernel_test

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// laneCounts are those of a CPU's lane in Stats.
func laneCounts(t *testing.T, r *perfbuf.Reader, cpu, lane int) perfbuf.CPUOutputs {
	t.Helper()
	c := r.Stats().Outputs.CPUs[3*cpu+lane]
	require.Equal(t, [2]int{cpu, lane}, [2]int{c.CPU, c.Lane})
	c.Lane = 0
	return c
}

// shed sums up what a pass tells of a lane.
func shed(t *testing.T, recs []perfbuf.Record, lane int) (n uint64) {
	t.Helper()
	for _, rec := range recs {
		if rec.Kind == perfbuf.KindShed && rec.Lane == lane {
			require.Less(t, rec.LostAfter, rec.Time)
			n += rec.Lost
		}
	}
	return n
}

// Each lane fills its share of the ring, the last one all of it. What a pass has read makes room
// for each again, and what was shed is told once, with its lane, CPU and time.
func TestKernelLanes(t *testing.T) {
	cpu := outputCPUs(t)[0]
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	r := openCounted(t, c, perfbuf.Options{RingBytes: 4096, CPUs: []int{cpu}, Lanes: []int{25, 50}})
	for _, opts := range []perfbuf.StreamOptions{{Order: perfbuf.Unordered()}, {Order: perfbuf.Slack(0)}} {
		s, err := r.Stream(opts)
		require.NoError(t, err)
		for range 3 {
			begin := r.Stats().Rings[0].Lost
			total, told := 0, map[int]uint64{}
			for lane, most := range []int{16, 32, 63} { // records of 64 bytes; the kernel leaves 1 byte of a ring unused
				before := laneCounts(t, r, cpu, lane)
				for ; total < most; total++ {
					require.NoError(t, c.OutputIn(lane, cpu, 40))
				}
				want := []error{syscall.ECANCELED, syscall.ECANCELED, syscall.ENOSPC}[lane]
				for range 5 {
					require.Equal(t, want, c.OutputIn(lane, cpu, 40))
				}
				after := laneCounts(t, r, cpu, lane)
				require.Equal(t, uint64(map[int]int{0: 16, 1: 16, 2: 31}[lane]+5), after.Attempted-before.Attempted)
				told[lane] = after.Shed - before.Shed
			}
			recs := append(collect(t, s), collect(t, s)...) // in order, what was shed until now comes a pass later
			for lane, n := range told {
				require.Equal(t, n, shed(t, recs, lane))
				require.Equal(t, uint64([]int{5, 5, 0}[lane]), n)
			}
			require.Zero(t, shed(t, collect(t, s), 0))
			require.NoError(t, c.OutputIn(0, cpu, 40), "there is room, and what was lost is told")
			require.Len(t, collect(t, s), 2)
			require.Equal(t, begin+5, r.Stats().Rings[0].Lost, "what was shed is not lost")
		}
		require.NoError(t, s.Close())
	}
	shut(t, r)
	for lane := range 3 {
		require.Equal(t, triedIn(t, c, cpu, lane), laneCounts(t, r, cpu, lane))
	}
}

// Without a reader, while it is paused, and after Close, nothing is shed, and outputs fail as ever.
// A reader that finds the limits of one that was killed replaces them.
func TestKernelLanesWithoutReader(t *testing.T) {
	cpu := outputCPUs(t)[0]
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	full := func(want error) {
		t.Helper()
		for range 10 {
			require.Equal(t, want, c.OutputIn(0, cpu, 1000))
		}
	}
	full(syscall.ENOENT)
	for range 2 {
		r := openCounted(t, c, perfbuf.Options{RingBytes: 4096, Lanes: []int{50}})
		s := unordered(t, r)
		for range 2 {
			require.NoError(t, c.OutputIn(0, cpu, 1000))
			require.NoError(t, c.OutputIn(1, cpu, 1000))
			full(syscall.ECANCELED)
			require.NoError(t, r.Pause())
			full(syscall.ENOENT)
			require.NoError(t, r.Resume())
			full(syscall.ECANCELED)
			require.Equal(t, uint64(20), shed(t, collect(t, s), 0))
		}
		shut(t, r)
		full(syscall.ENOENT)
		c.SetLimit(cpu, 0, 1) // as a reader that is killed leaves them
		full(syscall.ECANCELED)
	}
}

// A reader that another has displaced leaves the lanes to that one.
func TestKernelLanesDisplaced(t *testing.T) {
	cpu := outputCPUs(t)[0]
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	opts := perfbuf.Options{RingBytes: 4096, Lanes: []int{50}}
	old, fresh := openCounted(t, c, opts), openCounted(t, c, opts)
	shut(t, old)
	require.NoError(t, old.Shed(1), "in vain")
	require.NoError(t, c.OutputIn(0, cpu, 1000))
	require.NoError(t, c.OutputIn(0, cpu, 1000))
	require.Equal(t, syscall.ECANCELED, c.OutputIn(0, cpu, 1000))
	require.Equal(t, uint64(1), shed(t, collect(t, unordered(t, fresh)), 0))
}

// Shed sheds lanes whatever room there is, until told otherwise.
func TestKernelShed(t *testing.T) {
	cpu := outputCPUs(t)[0]
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	r := openCounted(t, c, perfbuf.Options{Lanes: []int{50}})
	s := unordered(t, r)
	for below := range 4 {
		require.NoError(t, r.Shed(below))
		for lane := range 3 {
			want := error(nil)
			if lane < below {
				want = syscall.ECANCELED
			}
			require.Equal(t, want, c.OutputIn(lane, cpu, 8))
		}
	}
	require.NoError(t, r.Shed(0))
	require.NoError(t, c.OutputIn(0, cpu, 8))
	recs := collect(t, s)
	for lane := range 3 {
		require.Equal(t, uint64(3-lane), shed(t, recs, lane))
	}
	require.ErrorContains(t, r.Shed(4), "fewer lanes")
	require.ErrorContains(t, r.Shed(-1), "fewer lanes")
	shut(t, r)
	require.NoError(t, r.Shed(1), "in vain")
	require.Equal(t, syscall.ENOENT, c.Output(cpu, 8))

	plain, err := perfbuf.Open(c.MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	defer plain.Close()
	require.ErrorContains(t, plain.Shed(0), "LanesFD")
}

// Programs on all CPUs output far more than the reader takes. The important lane loses nothing, and
// in each lane all outputs are delivered, shed or lost.
func TestKernelLanesFlood(t *testing.T) {
	cpus := outputCPUs(t)
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	for _, order := range []perfbuf.Order{perfbuf.Unordered(), {}} {
		r := openCounted(t, c, perfbuf.Options{RingBytes: 256 << 10, Lanes: []int{40, 60}})
		before := map[[2]int]perfbuf.CPUOutputs{}
		for _, cpu := range cpus {
			for lane := range 3 {
				before[[2]int{cpu, lane}] = triedIn(t, c, cpu, lane)
			}
		}
		s, err := r.Stream(perfbuf.StreamOptions{Order: order, Spill: perfbuf.Spill{Bytes: -1}})
		require.NoError(t, err)
		told, samples := map[[2]int]uint64{}, map[int]uint64{}
		note := func(ev perfbuf.Event) error {
			switch ev.Kind() {
			case perfbuf.KindShed:
				told[[2]int{ev.CPU(), ev.Lane()}] += ev.Lost()
			case perfbuf.KindSample:
				if samples[ev.CPU()]++; samples[ev.CPU()]%50 == 0 {
					spin(20_000)
				}
			}
			return nil
		}
		var floods sync.WaitGroup
		var over atomic.Bool
		for i, cpu := range cpus {
			floods.Go(func() {
				for !over.Load() {
					important := 1
					if r.Stats().Rings[i].Used > 200<<10 { // the reader has not run for long
						important = 0
					}
					c.Flood(cpu, 200, 512, important)
				}
			})
		}
		for enough := false; !enough; {
			require.NoError(t, s.ForEach(note))
			enough = true
			for _, cpu := range cpus {
				enough = enough && told[[2]int{cpu, 0}] > 10_000 && told[[2]int{cpu, 1}] > 1000
			}
		}
		over.Store(true)
		floods.Wait()
		require.NoError(t, s.Drain(t.Context(), note))
		require.NoError(t, s.ForEachPending(note))
		shut(t, r)
		for i, cpu := range cpus {
			written, sheds := uint64(0), uint64(0)
			for lane := range 3 {
				got := laneCounts(t, r, cpu, lane)
				was := before[[2]int{cpu, lane}]
				require.Equal(t, triedIn(t, c, cpu, lane), sum(cpu, was, got))
				require.Equal(t, got.Shed, told[[2]int{cpu, lane}], "lane %d", lane)
				require.Equal(t, got.Attempted, got.Written+got.Shed+got.Full)
				written, sheds = written+got.Written, sheds+got.Shed
			}
			important := laneCounts(t, r, cpu, 2)
			require.Zero(t, important.Shed+important.Full)
			require.NotZero(t, important.Written)
			require.Equal(t, written, samples[cpu])
			require.Equal(t, written, r.Stats().Rings[i].Samples)
			t.Logf("CPU %d: %d written, %d shed", cpu, written, sheds)
		}
	}
}

// spin takes a while, so that a reader is slower than programs.
func spin(n int) {
	for range n {
		os.Getpagesize()
	}
}

// A ring buffer is shared by all CPUs, and so is a lane's room in it.
func TestKernelLanesOfRingBuf(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 1 << 14})
	r := openRings(t, e.MapFD(), perfbuf.Options{LanesFD: e.LanesFD(), Lanes: []int{25}})
	s := unordered(t, r)
	cpus := kerneltest.OnlineCPUs(t)
	const each, most = 80, 1 << 12 / 72 // records of 64 bytes and a header
	for range 3 {
		before := r.Stats().Outputs.Total()
		for _, cpu := range cpus {
			e.Emit(cpu, kerneltest.RingEmit{Count: each, Size: 64})
		}
		got := r.Stats().Outputs.Total()
		require.Equal(t, uint64(most), got.Written-before.Written)
		require.Equal(t, uint64(len(cpus)*each-most), got.Shed-before.Shed)
		require.Zero(t, got.Full)
		recs := collect(t, s)
		require.Equal(t, got.Shed-before.Shed, shed(t, recs, 0))
		require.Zero(t, r.Stats().Total().Lost)
		require.Equal(t, got.Shed, r.Stats().Total().Shed)
	}
	shut(t, r)
	e.Emit(cpus[0], kerneltest.RingEmit{Count: 300, Size: 64})
	require.Equal(t, uint64(3*most), r.Stats().Outputs.Total().Written, "until Close")
	fresh := openRings(t, e.MapFD(), perfbuf.Options{})
	require.Len(t, collect(t, unordered(t, fresh)), 1<<14/72, "without a reader there are no shares")
}

// A user who is too slow has programs shed the lower lanes, in either order, and has them back when
// the flood is over.
func TestKernelMaxDelay(t *testing.T) {
	cpu := outputCPUs(t)[0]
	for _, order := range []perfbuf.Order{perfbuf.Unordered(), perfbuf.Slack(0)} {
		c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
		r := openCounted(t, c, perfbuf.Options{})
		s, err := r.Stream(perfbuf.StreamOptions{Order: order, MaxDelay: time.Millisecond})
		require.NoError(t, err)
		slow := func(ev perfbuf.Event) error {
			time.Sleep(time.Millisecond)
			return nil
		}
		for c.OutputIn(1, cpu, 40) != syscall.ECANCELED {
			require.NoError(t, c.OutputIn(2, cpu, 40), "the last lane is never shed")
			require.NoError(t, s.ForEach(slow))
		}
		for c.OutputIn(0, cpu, 40) != nil || c.OutputIn(1, cpu, 40) != nil {
			time.Sleep(time.Millisecond)
		}
		for c.OutputIn(0, cpu, 40) != syscall.ECANCELED {
			require.NoError(t, s.ForEach(slow))
		}
		require.NoError(t, s.Close())
		require.NoError(t, c.OutputIn(0, cpu, 40), "the end of the stream ends it")
	}
	plain, err := perfbuf.Open(kerneltest.LoadCounter(t, kerneltest.CounterOptions{}).MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	defer plain.Close()
	_, err = plain.Stream(perfbuf.StreamOptions{MaxDelay: time.Second})
	require.ErrorContains(t, err, "no reader has several lanes")
	_, err = plain.Stream(perfbuf.StreamOptions{MaxDelay: -1})
	require.ErrorContains(t, err, "must not be negative")
}
