//go:build linux && cgo

package perfchan_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// When another reader takes the map, Err reports it. The channels stay open for the other CPUs, and
// for the map's return.
func TestKernelChannelsDisplaced(t *testing.T) {
	if !kerneltest.AtLeast(t, 5, 10) {
		t.Skip("readers do not see each other before Linux 5.10")
	}
	e := kerneltest.Load(t)
	cpu := onlineCPUs(t)[0]
	events := make(chan []byte, 10)
	pb := start(t, e, events, nil, 4)
	e.Emit(cpu, 1, 24)
	other, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	defer other.Close()
	eventually(t, "it is noticed", func() bool { return pb.Err() != nil })
	require.ErrorIs(t, pb.Err(), perfbuf.ErrDisplaced)
	_, err = kerneltest.Check(<-events)
	require.NoError(t, err)
	require.Equal(t, len(onlineCPUs(t)), pb.Stats().Displaced.Entries)
	select {
	case b := <-events:
		require.Fail(t, "the channel is closed, or has another event", "%x", b)
	default:
	}
	pb.Stop()
	_, open := <-events
	require.False(t, open)
}

// Behavior of InitPerfBuf's channels that libbpfgo's lack: see kernel_test.go for the
// rest.

// A program that does not receive losses still gets events. It can receive the sum of the losses
// later.
func TestKernelChannelsUnreadLost(t *testing.T) {
	e := kerneltest.Load(t)
	cpu := onlineCPUs(t)[0]
	events, lost := make(chan []byte, 1000), make(chan uint64)
	pb := start(t, e, events, lost, 1)
	var received uint64
	for range 5 {
		received += overflow(e, cpu, events)
	}
	attempted, _ := e.Counts(cpu) // overflow's last output found room
	for {
		p, err := kerneltest.Check(<-events)
		require.NoError(t, err)
		received++
		if p.Seq == attempted-1 {
			break
		}
	}
	for total := uint64(0); received+total < attempted; {
		total += <-lost
	}
	eventually(t, "counted", func() bool { // pass ended
		return pb.Stats().Total().Lost == attempted-received
	})
}

// Rings are read while nobody receives, but not without limit.
func TestKernelChannelsSlowReceiver(t *testing.T) {
	e := kerneltest.Load(t)
	cpu := onlineCPUs(t)[0]
	events, lost := make(chan []byte), make(chan uint64)
	pb := start(t, e, events, lost, 16)
	for read := uint64(0); read < 60; { // as many bytes as one ring has
		e.Emit(cpu, 20, 1000)
		for read += 20; pb.Stats().Total().Samples < read; {
			runtime.Gosched()
		}
	}
	require.Zero(t, pb.Stats().Total().Lost)
	for failed := uint64(0); failed == 0; _, failed = e.Counts(cpu) {
		e.Emit(cpu, 10, 1000)
	}
	sum := report(e, cpu, events)
	attempted, _ := e.Counts(cpu)
	for sum < attempted {
		select {
		case data := <-events:
			_, err := kerneltest.Check(data)
			require.NoError(t, err)
			sum++
		case n := <-lost:
			sum += n
		}
	}
	require.Equal(t, attempted, sum)
	require.NoError(t, pb.Err())
}

func TestKernelChannelsErr(t *testing.T) {
	e := kerneltest.Load(t)
	cpu := onlineCPUs(t)[0]
	init := func(events chan []byte) *perfchan.PerfBuffer {
		pb, err := perfchan.InitPerfBuf(e.Module(), "events", events, nil, 64)
		require.NoError(t, err)
		t.Cleanup(pb.Close)
		return pb
	}

	events := make(chan []byte)
	pb := init(events)
	pb.Poll(-1)
	require.NoError(t, pb.Err())
	pb.Poll(-1)
	require.ErrorContains(t, pb.Err(), "called twice")
	e.Emit(cpu, 1, 24)
	<-events  // goes on all the same
	pb.Stop() // at once, for any argument of Poll

	pb = init(make(chan []byte))
	pb.Close()
	require.NoError(t, pb.Err())
	pb.Start()
	require.ErrorContains(t, pb.Err(), "after Stop or Close")

	events = make(chan []byte)
	pb = init(events)
	pb.Poll(300)
	require.NoError(t, e.EmitHuge(cpu, 70000))
	var corrupt *perfbuf.CorruptError
	for pb.Err() == nil {
		e.TryEmit(cpu, 1, 24)
		select {
		case <-events:
		default:
		}
	}
	require.ErrorAs(t, pb.Err(), &corrupt)
	require.Equal(t, cpu, corrupt.CPU)
	e.Emit(cpu, 1, 24)
	<-events
	pb.Close()
}

// libbpfgo has room for 512; here descriptors are the limit.
func TestKernelChannelsMany(t *testing.T) {
	e := kerneltest.Load(t)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	all := make([]*perfchan.PerfBuffer, min(520, int(limit.Cur)/(8+3*len(onlineCPUs(t)))))
	const parts = 16
	// Each close takes RCU grace periods. In parallel they share them.
	share := func(f func(i int)) {
		var working sync.WaitGroup
		for part := range parts {
			working.Go(func() {
				for i := part; i < len(all); i += parts {
					f(i)
				}
			})
		}
		working.Wait()
	}
	defer share(func(i int) {
		if all[i] != nil {
			all[i].Close()
		}
	})
	share(func(i int) {
		pb, err := perfchan.InitPerfBuf(e.Module(), "events", make(chan []byte), nil, 1)
		if err != nil {
			t.Error(err)
			return
		}
		all[i] = pb
		pb.Poll(300)
	})
}

// Stop, Close, Poll, Err and Stats at the same time, from those that receive too.
func TestKernelChannelsRaces(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := onlineCPUs(t)
	for i := range 30 {
		events, lost := make(chan []byte, i%3), make(chan uint64, i%2)
		pb, err := perfchan.InitPerfBuf(e.Module(), "events", events, lost, 1)
		require.NoError(t, err)
		var callers, receivers sync.WaitGroup
		done := make(chan struct{})
		receivers.Go(func() {
			for {
				select {
				case _, open := <-events:
					if !open {
						return
					}
					if i%2 == 0 {
						pb.Stop()
					}
				case <-done:
					return
				}
			}
		})
		for _, f := range []func(){pb.Start, pb.Stop, pb.Close, pb.Close, func() { pb.Err() }, func() { pb.Stats() }} {
			callers.Go(f)
		}
		for _, cpu := range cpus {
			e.TryEmit(cpu, 30, 100)
		}
		callers.Wait()
		close(done)
		receivers.Wait()
	}
}

// The module need not be libbpfgo's.
func TestKernelChannelsLoadedElsewhere(t *testing.T) {
	e := kerneltest.Load(t)
	events := make(chan []byte, 8)
	pb, err := perfchan.InitPerfBuf(mapsByName{"events": fd(e.MapFD())}, "events", events, nil, 1)
	require.NoError(t, err)
	defer pb.Close()
	pb.Start()
	e.Emit(onlineCPUs(t)[0], 1, 24)
	<-events
	_, err = perfchan.InitPerfBuf(mapsByName{}, "events", events, nil, 1)
	require.ErrorContains(t, err, `perfchan.InitPerfBuf: map "events": no such map`)
	require.ErrorIs(t, err, os.ErrNotExist)
}

type fd int

func (f fd) FileDescriptor() int { return int(f) }

type mapsByName map[string]fd

func (m mapsByName) GetMap(name string) (fd, error) {
	if f, ok := m[name]; ok {
		return f, nil
	}
	return 0, fmt.Errorf("no such map: %w", os.ErrNotExist)
}

// In a steady flow, few events wake the reader, and none waits for others. After a pause the first
// event wakes it.
func TestKernelChannelsDoorbell(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := onlineCPUs(t)
	events := make(chan []byte)
	pb, err := perfchan.InitPerfBuf(e.Module(), "events", events, nil, 64)
	require.NoError(t, err)
	defer pb.Close()
	require.NoError(t, pb.Stats().Doorbell.Err)
	pb.Start()
	const rounds = 300
	sent := uint64(0)
	for range rounds {
		for _, cpu := range cpus {
			e.Emit(cpu, 20, 40)
			sent += 20
		}
		for range 20 * len(cpus) {
			<-events
		}
	}
	eventually(t, "counted", func() bool { return pb.Stats().Total().Samples == sent }) // pass ended
	s := pb.Stats()
	t.Logf("%d wakeups for %d events; %+v", s.Wakes, sent, s.Doorbell)
	require.Less(t, s.Wakes, rounds/5+20*s.Doorbell.Disarms, "a ring that has been quiet for long rings at each until it is disarmed")
	eventually(t, "armed", func() bool { return pb.Stats().Doorbell.Armed == len(cpus) })
	before := pb.Stats().Doorbell.Disarms
	e.Emit(cpus[0], 1, 40)
	<-events
	require.Equal(t, before, pb.Stats().Doorbell.Disarms, "a rare event leaves its ring armed")
	e.Emit(cpus[0], 100, 40)
	for range 100 {
		<-events
	}
	eventually(t, "disarmed", func() bool { return pb.Stats().Doorbell.Disarms > before })
}

// Events of all CPUs come in the order of their outputs, unless the order is another.
func TestKernelChannelsOrder(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := onlineCPUs(t)
	if len(cpus) < 2 {
		t.Skip("one CPU")
	}
	const rounds = 300
	crossings := func(pb *perfchan.PerfBuffer, events chan []byte, err error) (n int) {
		require.NoError(t, err)
		defer pb.Close()
		for range rounds {
			for _, cpu := range cpus {
				e.Emit(cpu, 1, 40)
			}
		}
		pb.Poll(300)
		for i := range rounds * len(cpus) {
			p, err := kerneltest.Check(<-events)
			require.NoError(t, err)
			if p.CPU != cpus[i%len(cpus)] {
				n++
			}
		}
		return n
	}
	opened := func(order ...perfbuf.Order) (*perfchan.PerfBuffer, chan []byte, error) {
		events := make(chan []byte)
		pb, err := perfchan.InitPerfBuf(e.Module(), "events", events, nil, 64, order...)
		return pb, events, err
	}
	require.Zero(t, crossings(opened()))
	require.Zero(t, crossings(opened(perfbuf.Slack(time.Millisecond))))
	require.Positive(t, crossings(opened(perfbuf.Unordered())), "ring by ring")

	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{NoTime: true, Time: perfbuf.PayloadTime(workload.TimeOffset)})
	require.NoError(t, err)
	_, err = perfchan.New(r, perfbuf.StreamOptions{}, nil, nil)
	require.ErrorContains(t, err, "perfchan.New: the channel for events is nil")
	events := make(chan []byte)
	pb, err := perfchan.New(r, perfbuf.StreamOptions{}, events, nil)
	require.Zero(t, crossings(pb, events, err))
	<-r.Done()

	_, err = perfchan.InitPerfBuf(e.Module(), "events", make(chan []byte), nil, 1, perfbuf.Unordered(), perfbuf.Order{})
	require.ErrorContains(t, err, "2 orders: pass one")
}
