//go:build linux && cgo

package grace

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// providers opens each provider that works here.
func providers(t *testing.T, f func(t *testing.T, p Provider)) {
	for _, c := range candidates() {
		t.Run(c.is.String(), func(t *testing.T) {
			if c.is == BindMount { // without the proof, which takes long on a busy machine: TestKernelProve has it
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
		var h histogram
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 25 {
					begin := time.Now()
					if err := p.Wait(); err != nil {
						t.Error(err)
					}
					h.add(time.Since(begin))
				}
			})
		}
		wg.Wait()
		t.Logf("four at a time: p50 %v, p99 %v", h.quantile(0.5), h.quantile(0.99))
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

// machine is rings and load on some CPUs.
type machine struct {
	e     *kerneltest.Emitter
	rings []*raw.Ring
	stop  func()
}

// newMachine runs the emitting program on each CPU over and over, from a thread on that CPU: as a
// program in process context, which a kernel may preempt, and not in an interrupt.
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
				e.Emit(cpu, kerneltest.MaxCount, kerneltest.MinSize)
				time.Sleep(time.Millisecond) // or the race detector's reader falls behind
			}
		})
	}
	m.stop = sync.OnceFunc(func() { quit.Store(true); wg.Wait() })
	t.Cleanup(m.stop)
	return m
}

// walk frees what is in a ring up to head, record by record.
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

// unfinished looks at one CPU's programs, each run of which outputs MaxCount events: it tells
// whether one was under way before a wait, and whether its last event was still to come afterwards.
// Neither is known, and both false, if the ring was full in between: the wait took long.
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

// A program that was running when Wait was called has finished when it returns: the events of its
// whole run are there, and not only those up to some time.
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
	// That the test can fail: without a wait, it does.
	t.Run("no wait", func(t *testing.T) {
		m := newMachine(t, cpus[len(cpus)-1:])
		for missing := false; !missing; runtime.Gosched() {
			_, missing = unfinished(t, m.rings[0], func() error { return nil })
		}
	})
}

// No event at or below the watermark is published after the barrier: not one is beyond the heads
// that were loaded after the watermark.
func TestKernelWatermark(t *testing.T) {
	kerneltest.Require(t)
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	clock := func() uint64 {
		var ts unix.Timespec
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		return uint64(ts.Nano())
	}
	providers(t, func(t *testing.T, p Provider) {
		m := newMachine(t, cpus)
		b := New(p, clock, BarrierOptions{})
		events := 0
		round := func() {
			watermark := b.Watermark() // heads were loaded after it, and everything below them is freed
			require.NoError(t, b.Round())
			for _, r := range m.rings {
				walk(t, r, r.Head(), func(rec *raw.Record) {
					events++
					if rec.Time <= watermark {
						t.Errorf("an event of %d came after watermark %d", rec.Time, watermark)
					}
				})
			}
		}
		rounds := 100
		if testing.Short() { // an emulated machine takes seconds for each
			rounds = 10
		}
		for n := 0; n < rounds || events <= rounds; n++ {
			round()
			runtime.Gosched() // with one CPU a round takes no time, and the emitter has the same CPU
		}
		m.stop()
		round()
		t.Logf("%d events, %+v", events, b.Stats())
	})
}
