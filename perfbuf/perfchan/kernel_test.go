//go:build linux && cgo

package perfchan_test

import (
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
	"github.com/stretchr/testify/require"
)

// channels is the common part of libbpfgo's PerfBuffer and ours.
type channels interface {
	Poll(timeout int)
	Start()
	Stop()
	Close()
}

type initPerfBuf func(m *libbpfgo.Module, name string, events chan []byte, lost chan uint64, pages int) (channels, error)

// notNil is v unless there is an error.
func notNil[T channels](v T, err error) (channels, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func theirs(m *libbpfgo.Module, name string, events chan []byte, lost chan uint64, pages int) (channels, error) {
	return notNil(m.InitPerfBuf(name, events, lost, pages))
}

func ours(m *libbpfgo.Module, name string, events chan []byte, lost chan uint64, pages int) (channels, error) {
	return notNil(perfchan.InitPerfBuf(m, name, events, lost, pages))
}

// both runs a test with libbpfgo's InitPerfBuf and with ours.
func both(t *testing.T, f func(t *testing.T, e *kerneltest.Emitter, init initPerfBuf)) {
	for name, init := range map[string]initPerfBuf{"libbpfgo": theirs, "perfchan": ours} {
		t.Run(name, func(t *testing.T) { f(t, kerneltest.Load(t), init) })
	}
}

// opened is init of the map events, closed when the test ends.
func opened(t *testing.T, e *kerneltest.Emitter, init initPerfBuf, events chan []byte, lost chan uint64, pages int) channels {
	t.Helper()
	pb, err := init(e.Module(), "events", events, lost, pages)
	require.NoError(t, err)
	t.Cleanup(pb.Close)
	return pb
}

func TestKernelChannelsErrors(t *testing.T) {
	both(t, func(t *testing.T, e *kerneltest.Emitter, init initPerfBuf) {
		leak.Check(t)
		for name, c := range map[string]struct {
			mapName string
			events  chan []byte
			pages   int
		}{
			"no such map":    {"nothing", make(chan []byte), 1},
			"another type":   {"states", make(chan []byte), 1},
			"no channel":     {"events", nil, 1},
			"no pages":       {"events", make(chan []byte), 0},
			"3 pages":        {"events", make(chan []byte), 3},
			"negative":       {"events", make(chan []byte), -1},
			"too many pages": {"events", make(chan []byte), 1 << 40},
		} {
			pb, err := init(e.Module(), c.mapName, c.events, nil, c.pages)
			require.Error(t, err, name)
			require.Nil(t, pb, name)
			t.Log(err)
		}
	})
}

// Each event arrives once, unchanged, in its CPU's order, in its own memory. Events output before
// Poll arrive too.
func TestKernelChannelsEvents(t *testing.T) {
	both(t, func(t *testing.T, e *kerneltest.Emitter, init initPerfBuf) {
		for _, buffer := range []int{0, 1, 4096} {
			events, lost := make(chan []byte, buffer), make(chan uint64)
			pb := opened(t, e, init, events, lost, 2)
			cpus := onlineCPUs(t)
			next := map[int]uint64{}
			for _, cpu := range cpus {
				next[cpu], _ = e.Counts(cpu)
				e.Emit(cpu, 3, 40)
			}
			pb.Poll(300)
			var all [][]byte
			receive := func(n int) {
				for range n {
					all = append(all, <-events)
				}
			}
			receive(3 * len(cpus))
			for size := kerneltest.MinSize; size < 1000; size += 13 { // several laps of the rings
				for _, cpu := range cpus {
					e.Emit(cpu, 2, size)
				}
				receive(2 * len(cpus))
			}
			for i := range all {
				p, err := kerneltest.Check(all[i])
				require.NoError(t, err)
				require.Equal(t, next[p.CPU], p.Seq)
				next[p.CPU]++
				clear(all[i][:cap(all[i])]) // changes no other
			}
			pb.Stop()
			pb.Close()
			_, open := <-events
			require.False(t, open)
			_, open = <-lost
			require.False(t, open, "nothing was lost")
		}
	})
}

func TestKernelChannelsWithoutLost(t *testing.T) {
	both(t, func(t *testing.T, e *kerneltest.Emitter, init initPerfBuf) {
		events := make(chan []byte, 1000)
		pb := opened(t, e, init, events, nil, 1)
		cpu := onlineCPUs(t)[0]
		pb.Poll(300)
		overflow(e, cpu, events)
		attempted, _ := e.Counts(cpu)
		for {
			p, err := kerneltest.Check(<-events)
			require.NoError(t, err)
			if p.Seq == attempted-1 {
				break
			}
		}
		pb.Stop()
	})
}

// The effects of Stop and Close on the channels and the rings, in any order and number of calls.
func TestKernelChannelsEnd(t *testing.T) {
	both(t, func(t *testing.T, e *kerneltest.Emitter, init initPerfBuf) {
		leak.Check(t)
		cpu := onlineCPUs(t)[0]
		for name, c := range map[string]struct {
			do           func(pb channels)
			closed, gone bool
		}{
			"nothing":          {func(channels) {}, false, false},
			"Stop before Poll": {func(pb channels) { pb.Stop() }, false, false},
			"Stop, Poll, Stop": {func(pb channels) { pb.Stop(); pb.Poll(10); pb.Stop() }, true, false},
			"Stop":             {func(pb channels) { pb.Poll(10); pb.Stop() }, true, false},
			"Stop twice":       {func(pb channels) { pb.Poll(10); pb.Stop(); pb.Stop() }, true, false},
			"Close":            {func(pb channels) { pb.Poll(10); pb.Close() }, true, true},
			"Stop, Close":      {func(pb channels) { pb.Poll(10); pb.Stop(); pb.Close() }, true, true},
			"Close twice":      {func(pb channels) { pb.Poll(10); pb.Close(); pb.Close() }, true, true},
			"Close, Stop":      {func(pb channels) { pb.Poll(10); pb.Close(); pb.Stop() }, true, true},
			"without Poll":     {func(pb channels) { pb.Close() }, false, true},
		} {
			events, lost := make(chan []byte, 1), make(chan uint64, 1)
			pb, err := init(e.Module(), "events", events, lost, 1)
			require.NoError(t, err, name)
			c.do(pb)
			require.Equal(t, c.closed, closed(events), name)
			require.Equal(t, c.closed, closed(lost), name)
			e.Emit(cpu, 1, 24)
			_, ours := pb.(*perfchan.PerfBuffer)
			if c.gone || c.closed && ours { // our Stop frees the rings, too
				require.Equal(t, syscall.ENOENT, e.LastError(cpu), name)
			} else {
				require.NoError(t, e.LastError(cpu), name)
			}
			pb.Close()
		}
	})
}

func closed[T any](c chan T) bool {
	select {
	case _, open := <-c:
		return !open
	default:
		return false
	}
}

// Nobody need receive for Stop to return.
func TestKernelChannelsStopUnread(t *testing.T) {
	both(t, func(t *testing.T, e *kerneltest.Emitter, init initPerfBuf) {
		events := make(chan []byte)
		pb := opened(t, e, init, events, make(chan uint64), 8)
		for _, cpu := range onlineCPUs(t) {
			e.Emit(cpu, 50, 200)
		}
		pb.Poll(300)
		<-events
		pb.Stop()
		_, open := <-events
		require.False(t, open)
	})
}

// overflow makes a CPU's ring of one page report losses. It receives some events, and returns how
// many.
func overflow(e *kerneltest.Emitter, cpu int, events <-chan []byte) (received uint64) {
	_, before := e.Counts(cpu)
	failed := before
	for failed == before { // a reader may keep up, if programs are interrupted
		e.Emit(cpu, 100, 200)
		<-events
		received++
		_, failed = e.Counts(cpu)
	}
	return received + report(e, cpu, events)
}

// libbpfgo's Stop drains the channels so that its goroutine can end. It drains losses only once the
// channel of events is closed, which happens later. So one loss that nobody receives blocks it
// forever.
func TestKernelChannelsStopDeadlock(t *testing.T) {
	e := kerneltest.Load(t)
	events, lost := make(chan []byte, 1000), make(chan uint64)
	pb := opened(t, e, theirs, events, lost, 1)
	pb.Poll(300)
	overflow(e, onlineCPUs(t)[0], events)
	await := func(where, state string) { // until a goroutine is there
		for buf := make([]byte, 1<<20); ; runtime.Gosched() {
			select {
			case <-events: // else libbpfgo may block on these, before the loss
			default:
			}
			for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
				head, _, _ := strings.Cut(g, "\n")
				if strings.Contains(g, where) && strings.Contains(head, state) {
					return
				}
			}
		}
	}
	await("libbpfgo.perfLostCallback", "[chan send") // waits for a receiver,
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		pb.Stop()
	}()
	await("libbpfgo.(*PerfBuffer).Stop(", "[sync.WaitGroup.Wait") // which waits for it,
	await("libbpfgo.(*PerfBuffer).Stop.func1", "[chan receive")   // so does the receiver of events
	select {
	case <-stopped:
		t.Fatal("Stop has returned: libbpfgo has mended it")
	default:
	}
	for { // There is no other way out.
		select {
		case <-lost:
			continue
		case <-stopped:
		}
		break
	}

	e = kerneltest.Load(t)
	events, lost = make(chan []byte, 1000), make(chan uint64)
	our := start(t, e, events, lost, 1)
	overflow(e, onlineCPUs(t)[0], events)
	awaitLost(our)
	our.Stop()
	_, open := <-lost
	require.False(t, open)
}

// awaitLost returns when the reader knows of losses.
func awaitLost(pb *perfchan.PerfBuffer) {
	for pb.Stats().Total().Lost == 0 {
		runtime.Gosched()
	}
}
