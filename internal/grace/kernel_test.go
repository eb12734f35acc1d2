//go:build linux && cgo

package grace

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// providers runs f with each provider that works here.
func providers(t *testing.T, f func(t *testing.T, p Provider)) {
	for _, c := range candidates() {
		t.Run(c.is.String(), func(t *testing.T) {
			// The proof takes long on a busy machine, and TestKernelProve has it.
			if c.is == BindMount {
				c.open = func() (Provider, error) { return bindSome(bindable) }
			}
			p, err := c.open()
			for errors.Is(err, errNotShown) { // a busy machine
				p, err = c.open()
			}
			if err == nil {
				err = p.Wait()
			}
			if c.is == Membarrier && err != nil {
				t.Skip(err) // one CPU, or nohz_full
			}
			if c.is == NestLevels && err != nil {
				skipNestLevels(t, err)
			}
			require.NoError(t, err)
			defer p.Close()
			require.Equal(t, c.is.String(), p.Name())
			f(t, p)
		})
	}
}

func TestKernelProviders(t *testing.T) {
	kerneltest.Require(t)
	before := descriptors(t)
	providers(t, func(t *testing.T, p Provider) {
		var took [4][]time.Duration
		var wg sync.WaitGroup
		for i := range took {
			wg.Go(func() {
				for range 25 {
					begin := time.Now()
					if err := p.Wait(); err != nil {
						t.Error(err)
					}
					took[i] = append(took[i], time.Since(begin))
				}
			})
		}
		wg.Wait()
		all := slices.Concat(took[:]...)
		t.Logf("four at a time: p50 %v, p99 %v", quantile.Of(all, 0.5), quantile.Of(all, 0.99))
	})
	require.Equal(t, before, descriptors(t))

	p, err := Open(Options{Allow: MapInMap})
	require.NoError(t, err)
	require.Equal(t, "map-in-map", p.Name())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Wait(), unix.EBADF)

	p, err = Open(Options{Programs: true})
	require.NoError(t, err)
	t.Log(p.Name(), p.(*choice).refusals())
	require.NoError(t, p.Wait())
	require.NoError(t, p.Close())
}

// machine is a set of rings, with load on their CPUs.
type machine struct {
	e     *kerneltest.Emitter
	rings []*raw.Ring
	stop  func()
}

// newMachine runs the emitting program on each CPU repeatedly. The program runs in process context,
// where the kernel may preempt it, and not in an interrupt.
func newMachine(t *testing.T, cpus []int) *machine {
	e := kerneltest.Load(t)
	attr := &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER5, Config: unix.PERF_COUNT_SW_BPF_OUTPUT,
		Sample: 1, Sample_type: unix.PERF_SAMPLE_RAW | unix.PERF_SAMPLE_TIME, Wakeup: 1 << 20,
		Bits: unix.PerfBitSampleIDAll | unix.PerfBitUseClockID, Clockid: unix.CLOCK_MONOTONIC,
	}
	pb, err := libbpf.NewRaw(e.MapFD(), 16<<20/os.Getpagesize(), attr, cpus, cpus)
	require.NoError(t, err)
	t.Cleanup(pb.Free)
	m := &machine{e: e}
	for i := range cpus {
		meta, data, err := pb.Buffer(i)
		require.NoError(t, err)
		r, err := raw.New(meta, data, raw.LayoutRawTime)
		require.NoError(t, err)
		m.rings = append(m.rings, r)
	}
	m.stop = onEach(t, cpus, func(cpu int) error {
		e.Emit(cpu, kerneltest.MaxCount, kerneltest.MinSize)
		time.Sleep(time.Millisecond) // or the race detector's reader falls behind
		return nil
	})
	return m
}

// onEach runs f repeatedly from a thread on each CPU, until stop or the test's end.
func onEach(t *testing.T, cpus []int, f func(cpu int) error) (stop func()) {
	var quit atomic.Bool
	var wg sync.WaitGroup
	for _, cpu := range cpus {
		wg.Go(func() {
			runtime.LockOSThread() // and never unlock: the thread is on one CPU
			var one unix.CPUSet
			one.Set(cpu)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Error(err)
			}
			for !quit.Load() {
				if err := f(cpu); err != nil && !errors.Is(err, unix.EINTR) {
					t.Error(err)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { quit.Store(true); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// walk consumes a ring's records up to head.
func walk(t *testing.T, r *raw.Ring, head uint64, f func(rec *raw.Record)) {
	off := r.Tail()
	for off < head {
		var rec raw.Record
		r.Parse(off, head, &rec)
		if rec.Kind == raw.Corrupt {
			require.FailNow(t, "corrupt", "%v", rec.Fault)
		}
		f(&rec)
		off += rec.Size
	}
	r.SetTail(off)
}

// unfinished observes one CPU's programs, each of which outputs MaxCount events. It reports whether
// one was under way before a wait, and whether its last event was missing afterwards. If the ring
// filled up because the wait took long, both are false.
func unfinished(t *testing.T, r *raw.Ring, wait func() error) (underWay, missing bool) {
	var seq uint64
	lost := false
	last := func(rec *raw.Record) {
		if rec.Kind != raw.Sample {
			lost = true
			return
		}
		seq, _ = r.Payload8(rec, 0)
	}
	before := r.Head()
	for old := before; before == old; before = r.Head() { // as soon as one outputs
	}
	err := wait()
	after := r.Head()
	require.NoError(t, err)
	full := after-r.Tail() > r.Size()/2
	walk(t, r, before, last)
	end := seq | (kerneltest.MaxCount - 1)
	underWay = seq != end
	walk(t, r, after, last)
	if full || lost {
		return false, false
	}
	return underWay, underWay && seq < end
}

// A program that was running when Wait was called has finished when it returns: all events of its
// run are there.
func TestKernelWaitsForPrograms(t *testing.T) {
	kerneltest.Require(t)
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	kerneltest.RequireCPUs(t, 2, "one to look on while the program runs on the other")
	providers(t, func(t *testing.T, p Provider) {
		if p.Name() == NestLevels.String() {
			t.Skip("a program may be between two outputs, and nobody waits for the next")
		}
		m := newMachine(t, cpus[len(cpus)-1:])
		for begin, n := time.Now(), 0; n < 10 && (n == 0 || time.Since(begin) < 3*time.Second); { // a busy machine sees few
			underWay, missing := unfinished(t, m.rings[0], p.Wait)
			require.False(t, missing, "a program had not finished")
			if underWay {
				n++
			}
		}
	})
	// Without a wait, the test fails.
	t.Run("no wait", func(t *testing.T) {
		m := newMachine(t, cpus[len(cpus)-1:])
		for missing := false; !missing; runtime.Gosched() {
			_, missing = unfinished(t, m.rings[0], func() error { return nil })
		}
	})
}

// After the barrier, nobody publishes an event at or below the watermark: all are below the heads
// loaded after the watermark.
func TestKernelWatermark(t *testing.T) {
	kerneltest.Require(t)
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	enough := 100
	if testing.Short() { // an emulated machine takes seconds for each
		enough = 10
	}
	providers(t, func(t *testing.T, p Provider) {
		m := newMachine(t, cpus)
		require.Zero(t, late(t, m, p, BarrierOptions{}, monotonic, func(rounds, events, _ int) bool {
			return rounds >= enough && events > enough
		}))
	})
}

func monotonic() uint64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return uint64(ts.Nano())
}

// late makes rounds until stop returns true, and one more. It returns how many events were
// published after a watermark at or above their time. It logs how many a missing wait would have
// let through: those not yet published when it began.
func late(t *testing.T, m *machine, p Provider, o BarrierOptions, clock func() uint64, stop func(rounds, events, late int) bool) int {
	rounds, events, late, lateRounds, waited, waitedRounds := 0, 0, 0, 0, 0, 0
	began, heads := make([]uint64, len(m.rings)), make([]uint64, len(m.rings))
	load := func(heads []uint64) {
		for i, r := range m.rings {
			heads[i] = r.Head()
		}
	}
	if n, ok := p.(*nestLevels); ok {
		o.Guard = n.Guard()
	}
	b := New(waitFunc(func() error { load(began); return p.Wait() }), clock, o)
	for last := false; !last; rounds++ {
		last = stop(rounds, events, lateRounds)
		before := b.Watermark() // heads were loaded after it, and everything below them is freed
		require.NoError(t, b.Round())
		load(heads)
		watermark, oldLate, oldWaited := b.Watermark(), late, waited
		for i, r := range m.rings {
			count := func(rec *raw.Record) {
				events++
				if rec.Time <= before {
					late++
				}
			}
			walk(t, r, began[i], count)
			walk(t, r, heads[i], func(rec *raw.Record) {
				count(rec)
				if rec.Time <= watermark {
					waited++
				}
			})
		}
		if late > oldLate {
			lateRounds++
		}
		if waited > oldWaited {
			waitedRounds++
		}
		runtime.Gosched()
	}
	t.Logf("%d rounds, %d of them late, %d would have been without a wait; %d events, %d late, %d waited for; %+v",
		rounds, lateRounds, waitedRounds, events, late, waited, b.Stats())
	require.NotZero(t, events)
	return late
}
