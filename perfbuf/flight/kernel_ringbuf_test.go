//go:build linux && cgo

package flight_test

import (
	"os"
	"sync"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
)

func ringOptions() flight.Options {
	return flight.Options{Time: perfbuf.PayloadTime(kerneltest.RingTimeAt), CPU: perfbuf.PayloadCPU(kerneltest.RingCPUAt)}
}

func openRings(t testing.TB, fd int, o flight.Options) *flight.Recorder {
	t.Helper()
	r, err := flight.Open(fd, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// A ring buffer that has never been full has every event since it exists. A full one has its newest
// events without a gap, and any number of recorders.
func TestKernelOverwritten(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Overwrite: true, Hold: true})
	leak.Check(t)
	cpus := kerneltest.OnlineCPUs(t)
	e.EmitOn(cpus, 100, 40)
	r, err := flight.Open(e.MapFD(), ringOptions())
	require.NoError(t, err)
	s := snapshot(t, r)
	require.Zero(t, s.CompleteSince())
	require.Equal(t, 100*len(cpus), s.Len())
	for at, got := range whole(t, s) {
		require.Equalf(t, span{0, 100}, got, "%+v", at)
	}

	e.Emitter.Emit(cpus[0], 5000, 48) // of 56 bytes each: 1170 in 64 KiB
	other := openRings(t, e.MapFD(), ringOptions())
	for _, r := range []*flight.Recorder{r, other} {
		s = snapshot(t, r)
		got := whole(t, s)[of{cpus[0], 0}]
		require.Equal(t, uint64(5100), got.next)
		bound := 6 * e.CPUs // the oldest ones say since when it is complete
		require.InDelta(t, 1170-bound, s.Len(), 1)
		require.Equal(t, s.CompleteSince(), s.Rings()[0].Since)
		require.InDelta(t, 1170*56, s.Rings()[0].Bytes, 56)
		require.Equal(t, -1, s.Rings()[0].CPU)
	}
	stats := r.Stats()
	require.Equal(t, 1, stats.Rings)
	require.Equal(t, uint64(len(cpus)*100*48+5000*56), stats.Written)
	require.NoError(t, r.Close())
	e.Emitter.Emit(cpus[0], 1, 48)
	require.NoError(t, e.LastError(cpus[0]))
	require.Equal(t, uint64(5101), whole(t, snapshot(t, other))[of{cpus[0], 0}].next)
}

// A record that a program holds reserved is not in a snapshot, and the records behind it are. Once
// it is a whole ring old, outputs fail. Then it is submitted, or discarded.
func TestKernelOverwrittenHeld(t *testing.T) {
	for _, discard := range []bool{false, true} {
		e := kerneltest.LoadRings(t, kerneltest.RingOptions{Overwrite: true, Hold: true})
		r := openRings(t, e.MapFD(), flight.Options{Time: perfbuf.StampedTime(kerneltest.RingTimeAt), CPU: perfbuf.PayloadCPU(kerneltest.RingCPUAt)})
		cpu := kerneltest.OnlineCPUs(t)[0]
		release := e.Hold(discard)
		require.Zero(t, snapshot(t, r).Len())
		e.Emitter.Emit(cpu, 100, 48)
		s := snapshot(t, r)
		require.Equal(t, 100, s.Len())
		require.Zero(t, s.CompleteSince())
		e.Emitter.Emit(cpu, 5000, 48)
		require.Error(t, e.LastError(cpu))
		s = snapshot(t, r)
		require.Equal(t, (1<<16-72-8)/56, s.Len())
		require.Zero(t, s.CompleteSince(), "nothing is overwritten")
		release()
		s = snapshot(t, r)
		require.Equal(t, map[bool]int{true: 0, false: 1}[discard]+(1<<16-72-8)/56, s.Len())
		e.Emitter.Emit(cpu, 5000, 48)
		require.NoError(t, e.LastError(cpu))
		s = snapshot(t, r)
		require.NotZero(t, s.CompleteSince())
		require.NotZero(t, s.Len())
	}
}

// Ring buffers in a map of maps are one snapshot, also those that come later or go.
func TestKernelOverwrittenShards(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Overwrite: true, Shards: 64})
	cpus := kerneltest.OnlineCPUs(t)
	emit := func(cpu, n int) { e.Emit(cpu, kerneltest.RingEmit{Count: n, Size: 48, To: "shard"}) }
	_, err := flight.Open(e.ShardsFD(), ringOptions())
	require.ErrorContains(t, err, "it contains no maps yet")
	e.SetShard(cpus[0], kerneltest.NewOverwritten(t, 1<<16))
	r := openRings(t, e.ShardsFD(), ringOptions())
	for i, cpu := range cpus {
		if i > 0 {
			e.SetShard(cpu, kerneltest.NewOverwritten(t, 1<<16))
		}
		emit(cpu, 10)
		s := snapshot(t, r)
		require.Len(t, s.Rings(), i+1)
		require.Equal(t, 10*(i+1), s.Len())
		whole(t, s)
	}
	e.SetShard(cpus[0], kerneltest.NewOverwritten(t, 1<<16)) // in the place of the first
	emit(cpus[0], 10)
	s := snapshot(t, r)
	require.Equal(t, span{0, 20}, whole(t, s)[of{cpus[0], 0}])
	require.Equal(t, len(cpus)+1, r.Stats().Rings)
	emit(cpus[0], 5000)
	s = snapshot(t, r)
	require.Equal(t, uint64(5020), whole(t, s)[of{cpus[0], 0}].next)
	require.NoError(t, r.Stats().Err)
}

// A perf event array and a ring buffer are one snapshot, in one order.
func TestKernelMerge(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Overwrite: true, Events: true})
	cpus := kerneltest.OnlineCPUs(t)
	perf := openRings(t, e.FD(workload.Events), flight.Options{Name: "perf", Time: perfbuf.PayloadTime(kerneltest.RingTimeAt)})
	o := ringOptions()
	o.Name = "ring"
	rings := openRings(t, e.MapFD(), o)
	round := func(n int) {
		var all sync.WaitGroup
		for _, cpu := range cpus {
			all.Go(func() {
				for i := range n {
					to := [...]workload.Map{workload.Events, workload.Shared}[i%2]
					if err := e.Output(cpu, workload.Output{Count: 1 + i%3, Size: 40, To: to}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	round(100)
	for range 20 {
		a, b := snapshot(t, rings), snapshot(t, perf)
		until := a.Until()
		n := a.Len() + b.Len()
		m := flight.Merge(a, b)
		require.Equal(t, until, m.Until())
		require.Len(t, m.Rings(), 1+len(cpus))
		require.LessOrEqual(t, m.Len(), n)
		sources := map[string]int{}
		for ev := range m.Events() {
			sources[ev.Source()]++
		}
		require.NotZero(t, sources["perf"])
		require.NotZero(t, sources["ring"])
		require.Equal(t, m.Len(), sources["perf"]+sources["ring"])
		whole(t, m) // numbers count outputs to both
		require.Zero(t, flight.Merge(a, b).Len(), "they were taken over")
		m.Release()
		require.Zero(t, len(whole(t, m)))
		round(50)
	}
}

func TestKernelOverwrittenErrors(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	leak.Check(t)
	var wrong *perfbuf.MapError
	_, err := flight.Open(e.MapFD(), ringOptions())
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "lacks the flag BPF_F_RB_OVERWRITE")
	for says, change := range map[string]func(*flight.Options){
		"Time is zero":                           func(o *flight.Options) { o.Time = perfbuf.TimeSource{} },
		"PayloadBootTime":                        func(o *flight.Options) { o.Time = perfbuf.PayloadBootTime(0) },
		"PayloadTime is at offset -1":            func(o *flight.Options) { o.Time = perfbuf.PayloadTime(-1) },
		"PayloadCPU at -2":                       func(o *flight.Options) { o.CPU = perfbuf.PayloadCPU(-2) },
		"MaxBytes, CPUs or Pause is set":         func(o *flight.Options) { o.MaxBytes = 1 << 20 },
		"which BPF ring buffers do not have":     func(o *flight.Options) { o.CPUs = []int{0} },
		"BPF ring buffers do not have":           func(o *flight.Options) { o.Pause = true },
		"NestLevels alone":                       func(o *flight.Options) { o.Barriers = perfbuf.NestLevels },
		"flight.Options: MinAge is -1ns: must n": func(o *flight.Options) { o.MinAge = -1 },
	} {
		o := ringOptions()
		change(&o)
		_, err := flight.Open(e.MapFD(), o)
		require.ErrorContains(t, err, says)
	}
	kerneltest.RequireLinux(t, 6, 19, "BPF_F_RB_OVERWRITE")
	fd := kerneltest.NewOverwritten(t, os.Getpagesize())
	_, err = perfbuf.OpenRingBuf(fd, perfbuf.Options{})
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "flight.Open")
	r, err := flight.Open(fd, ringOptions())
	require.NoError(t, err)
	require.Zero(t, snapshot(t, r).Len())
	require.NoError(t, r.Close())
}
