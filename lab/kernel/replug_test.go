//go:build linux && cgo

package kernel_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/internal/perfevent"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A ring that gets new perf events goes on where it was, for every consumer, and however often.
func TestKernelNewPerfEvents(t *testing.T) {
	for name, make := range readings {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r, plug := openPlug(t, perfevent.Map{FD: e.MapFD()}, perfbuf.Options{RingBytes: 16 << 10})
			l := newLedger(t)
			n, stop := running(t, make(t, r), l.add)
			total := int64(0)
			for range 3 {
				for _, cpu := range r.Options().CPUs {
					e.Emit(cpu, 20, 40)
					total += 20
				}
				eventually(t, "delivered", func() bool { return n.Load() == total })
				// Some by the new bell
				eventually(t, "armed", func() bool { return r.Stats().Doorbell.Armed == len(r.Rings()) })
				for i := range r.Rings() {
					plug.reopen(t, i)
				}
			}
			stop()
			s := r.Stats()
			require.EqualValues(t, 3*len(s.Rings), s.Hotplug.Reopened)
			require.Zero(t, s.ReplacedEntries)
		})
	}
}

// Losses of all perf events that a ring has had are its own.
func TestKernelNewPerfEventsCountLosses(t *testing.T) {
	kerneltest.RequireLinux(t, 6, 0, "PERF_FORMAT_LOST")
	e := kerneltest.Load(t)
	r, plug := openPlug(t, perfevent.Map{FD: e.MapFD()}, perfbuf.Options{RingBytes: 4096})
	cpu := r.Options().CPUs[0]
	for range 4 {
		e.Emit(cpu, 300, 40)
		plug.reopen(t, 0)
	}
	e.Emit(cpu, 300, 40)
	r.Close()
	eventually(t, "its counts are final", func() bool {
		s := r.Stats().Rings[0]
		attempted, failed := e.Counts(cpu)
		return s.Dropped == attempted-failed && s.Lost == failed && attempted == 1500
	})
}

// A map's entry has one perf event. A second reader takes the events away from the first, and its
// Stats say so.
func TestKernelSecondReaderOnAMap(t *testing.T) {
	e := kerneltest.Load(t)
	first := open(t, e, perfbuf.Options{})
	cpus := first.Options().CPUs
	second := open(t, e, perfbuf.Options{CPUs: cpus[:1]})
	require.Zero(t, first.Stats().ReplacedEntries)
	require.Equal(t, 1, second.Stats().ReplacedEntries)
	e.EmitOn(cpus, 3, 40)
	require.Len(t, collect(t, unordered(t, second)), 3)
	require.Len(t, collect(t, unordered(t, first)), 3*(len(cpus)-1))

	third := open(t, e, perfbuf.Options{})
	require.Equal(t, len(cpus), third.Stats().ReplacedEntries)
	third.Close()
	again := open(t, e, perfbuf.Options{})
	require.Zero(t, again.Stats().ReplacedEntries, "Close leaves none behind")
}

// Whichever of its system calls fails, a ring for a CPU that comes later says which and leaves
// nothing behind, and the next attempt succeeds.
func TestKernelLaterCPUFaults(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := fewCPUs(t, e)
	if len(cpus) < 2 {
		t.Skip("needs two CPUs")
	}
	k, err := kernel.OpenOnline(&perfevent.Map{FD: e.MapFD()}, func([]int) (kernel.Setup, error) {
		return kernel.Setup{CPUs: cpus[:1], RingBytes: 64 << 10, Bell: true}, nil
	})
	require.NoError(t, err)
	defer kernel.Discard(k)
	p := k.(*perfevent.Events)
	ours := 1
	if libbpf.Available { // whose epoll set of one ring comes first
		ours = 2
	}
	for _, c := range []struct {
		call  kerneltest.Call
		errno syscall.Errno
		nth   int
		says  string
	}{
		{kerneltest.CallPerfEventOpen, syscall.EACCES, 1, "perf_event_open"},
		{kerneltest.CallPerfEventOpen, syscall.EACCES, 2, "perf_event_open of another perf event"},
		{kerneltest.CallMmapFile, syscall.EPERM, 1, "mmap"},
		{kerneltest.CallEpollCtl, syscall.ENOSPC, ours, "epoll_ctl for CPU"},
		{callSetOutput, syscall.EIO, 1, "PERF_EVENT_IOC_SET_OUTPUT"},
	} {
		t.Run(fmt.Sprint(c.call, c.nth), func(t *testing.T) {
			leak.Check(t)
			require.GreaterOrEqual(t, kerneltest.Fail(t, c.call, c.errno, only(c.nth), func() { _, err = p.Add(cpus[1]) }), c.nth)
			require.ErrorIs(t, err, c.errno)
			require.ErrorContains(t, err, fmt.Sprintf("a ring for CPU %d: ", cpus[1]))
			require.ErrorContains(t, err, c.says)
			require.Equal(t, -1, p.Index(cpus[1]))
		})
	}
	ring, err := p.Add(cpus[1])
	require.NoError(t, err)
	require.Equal(t, cpus[1], ring.CPU())
}

// plug is the real kernel, except that a test says when CPUs have come back.
type plug struct {
	*perfevent.Events
	from    perfevent.Map
	reader  *perfbuf.Reader
	back    atomic.Int64       // 1 + the ring whose CPU is back
	changes chan chan struct{} // each is closed when the reader has dealt with the change
	dealt   chan struct{}      // the latest of them
	stop    chan struct{}
	stopped sync.Once
}

// openPlug opens a reader that is closed when the test ends.
func openPlug(t *testing.T, from perfevent.Map, opts perfbuf.Options) (*perfbuf.Reader, *plug) {
	t.Helper()
	p := &plug{from: from, changes: make(chan chan struct{}), stop: make(chan struct{})}
	r, err := perfbuf.OpenSource(plugMap{&p.from, p}, opts)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	p.reader = r
	return r, p
}

// plugMap has its Events opened as a plug.
type plugMap struct {
	*perfevent.Map
	plug *plug
}

func (m plugMap) Open(s kernel.Setup) (kernel.Kernel, error) {
	k, err := m.Map.Open(s)
	if err != nil {
		return nil, err
	}
	m.plug.Events = k.(*perfevent.Events)
	return m.plug, nil
}

// change has the reader look for changed CPUs, and waits until it has.
func (p *plug) change(t *testing.T) {
	t.Helper()
	dealt := make(chan struct{})
	p.changes <- dealt
	<-dealt
	require.NoError(t, p.reader.Stats().Hotplug.Err)
}

// reopen has a ring's CPU come back, so that the ring gets new perf events.
func (p *plug) reopen(t *testing.T, ring int) {
	t.Helper()
	p.back.Store(int64(ring) + 1)
	before := p.reader.Stats().Hotplug.Reopened
	p.change(t)
	require.Equal(t, before+1, p.reader.Stats().Hotplug.Reopened)
}

// Alive implements kernel.Returning.
func (p *plug) Alive(ring int) bool {
	return !p.back.CompareAndSwap(int64(ring)+1, 0) && p.Events.Alive(ring)
}

// Changed implements kernel.Watcher.
func (p *plug) Changed(time.Duration) bool {
	if p.dealt != nil {
		close(p.dealt)
	}
	select {
	case p.dealt = <-p.changes:
		return true
	case <-p.stop:
		return false
	}
}

// StopWatching implements kernel.Watcher.
func (p *plug) StopWatching() {
	p.stopped.Do(func() { close(p.stop) })
	p.Events.StopWatching()
}
