//go:build linux && cgo

package ringbuf

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
)

// All that is output on any CPU arrives once and whole, however often the ring buffer wraps.
func TestKernelReads(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	k := open(t, e.MapFD())
	require.Len(t, k.Rings(), 1)
	r := k.Rings()[0]
	require.EqualValues(t, 1<<16, r.Size())
	require.Equal(t, -1, r.CPU())

	s := seen{}
	for round := range 200 {
		for _, cpu := range kerneltest.OnlineCPUs(t) {
			e.Emit(cpu, kerneltest.RingEmit{Count: 5, Size: 32 + 41*round%4064})
			events, discarded := read(t, r)
			require.Len(t, events, 5)
			require.Zero(t, discarded)
			s.add(t, events)
		}
	}
	require.Greater(t, r.Head(), 10*r.Size(), "it has wrapped")
	require.Len(t, s, len(kerneltest.OnlineCPUs(t)))
}

// The same while programs output on all CPUs, to a ring buffer that never is full for long.
func TestKernelReadsMeanwhile(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 4 << 20}) // all of 200 CPUs may find it half empty at once
	k := open(t, e.MapFD())
	r := k.Rings()[0]
	const each = 5000
	var all sync.WaitGroup
	for _, cpu := range kerneltest.OnlineCPUs(t) {
		all.Go(func() {
			for range each / 50 {
				for r.Head()-r.Tail() > r.Size()/2 {
					time.Sleep(100 * time.Microsecond)
				}
				e.Emit(cpu, kerneltest.RingEmit{Count: 50, Size: 200})
			}
		})
	}
	s := seen{}
	done := func() (n uint64) {
		for _, count := range s {
			n += count
		}
		return n
	}
	for done() < uint64(each*len(kerneltest.OnlineCPUs(t))) {
		require.NoError(t, k.Wait(time.Time{}, func(bool) bool {
			events, _ := read(t, r)
			s.add(t, events)
			return len(events) > 0
		}))
	}
	all.Wait()
}

// A payload is as long as what was output, to the byte.
func TestKernelLengths(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 1 << 18})
	k := open(t, e.MapFD())
	k.Rings()[0].SetFields(-1, -1)
	sizes := []int{4095, 4096, 4097, 65491, 65535, 65536, 65537, 70000, kerneltest.MaxHuge}
	for n := range 100 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		require.NoError(t, e.EmitHuge(0, n))
		events, _ := read(t, k.Rings()[0])
		require.Len(t, events, 1)
		require.Len(t, events[0].payload, n)
		require.NoError(t, kerneltest.CheckHuge(events[0].payload))
		require.Equal(t, event{events[0].payload, 0, -1}, events[0])
	}
}

// Discarded records are there, and to be skipped. What was reserved has a time from then.
func TestKernelStamped(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	k := open(t, e.MapFD())
	before := k.Now()
	e.Emit(0, kerneltest.RingEmit{Count: 100, Stamped: true, Every: 3})
	require.NoError(t, e.EmitCopy(0))
	after := k.Now()
	events, discarded := read(t, k.Rings()[0])
	require.Equal(t, 34, discarded)
	require.EqualValues(t, 34, e.Discarded(0))
	require.Len(t, events, 67)
	for i, ev := range events {
		p, err := kerneltest.CheckRing(ev.payload)
		require.NoError(t, err)
		if i < 66 {
			require.EqualValues(t, i/2*3+i%2+1, p.Seq)
		}
		require.LessOrEqual(t, before, p.Time)
		require.LessOrEqual(t, p.Time, after)
		before = p.Time
	}
}

// Whoever has read all is woken by the next event, each time.
func TestKernelWakes(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	k := open(t, e.MapFD())
	s, waiting, over := seen{}, make(chan bool), make(chan bool)
	go func() {
		defer close(over)
		for range waiting {
			e.Emit(0, kerneltest.RingEmit{Count: 1, Size: 40})
		}
	}()
	for range 300 {
		asked := false
		require.NoError(t, k.Wait(time.Time{}, func(bool) bool {
			events, _ := read(t, k.Rings()[0])
			if !asked {
				require.Empty(t, events)
				asked = true
				waiting <- true
			}
			s.add(t, events)
			return len(events) > 0
		}))
	}
	close(waiting)
	<-over // before the program goes
}

// Programs that wake nobody are found by who looks. Nor does anybody wake a reader that has left
// something unread, which does not spin either.
func TestKernelNoWakeup(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	k := open(t, e.MapFD())
	r := k.Rings()[0]
	quiet := func(emit kerneltest.RingEmit) {
		t.Helper()
		woken := 0
		require.ErrorIs(t, k.Wait(time.Time{}, func(w bool) bool {
			if w {
				woken++
				return false
			}
			e.Emit(0, emit)
			time.AfterFunc(50*time.Millisecond, k.Interrupt) // a deadline might have passed before it begins
			return false
		}), os.ErrDeadlineExceeded)
		require.Zero(t, woken)
	}
	quiet(kerneltest.RingEmit{Count: 10, Size: 40, Flags: kerneltest.NoWakeup})
	quiet(kerneltest.RingEmit{Count: 10, Size: 40})
	require.EqualValues(t, 20*48, r.Head()-r.Tail())

	woken := false // though all is unread
	require.NoError(t, k.Wait(time.Time{}, func(w bool) bool {
		if !w {
			e.Emit(0, kerneltest.RingEmit{Count: 1, Size: 40, Flags: kerneltest.ForceWakeup})
		}
		woken = w
		return w
	}))
	require.True(t, woken)
	events, _ := read(t, r)
	require.Len(t, events, 21)
}

// Behind a busy record nobody is woken, until that is committed, or discarded.
func TestKernelBusy(t *testing.T) {
	for _, discard := range []bool{false, true} {
		e := kerneltest.LoadRings(t, kerneltest.RingOptions{Hold: true})
		k := open(t, e.MapFD())
		r := k.Rings()[0]
		release := e.Hold(discard)
		woken := 0
		require.ErrorIs(t, k.Wait(time.Time{}, func(w bool) bool {
			events, discarded := read(t, r)
			require.Empty(t, events)
			require.Zero(t, discarded)
			if !w {
				e.Emit(0, kerneltest.RingEmit{Count: 10, Size: 40})
				time.AfterFunc(50*time.Millisecond, k.Interrupt)
				return false
			}
			woken++
			return false
		}), os.ErrDeadlineExceeded)
		require.Zero(t, woken)
		require.EqualValues(t, 72+10*48, r.Head()-r.Tail())

		released := make(chan bool)
		n, skipped := 0, 0
		require.NoError(t, k.Wait(time.Time{}, func(w bool) bool {
			if !w {
				go func() { release(); close(released) }()
				return false
			}
			events, discarded := read(t, r)
			n, skipped = n+len(events), skipped+discarded
			return n+skipped == 11
		}))
		<-released
		require.Equal(t, discard, skipped == 1)
		require.Equal(t, !discard, n == 11)
	}
}

// Closing ends a wait, and leaves nothing behind.
func TestKernelClose(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	e.SetShard(0, e.MapFD())
	leak.Check(t)
	for fd, losses := range map[int]int{e.MapFD(): e.LanesFD(), e.ShardsFD(): e.ShardLanesFD()} {
		k, err := (&Opener{FD: fd}).Open(kernel.Setup{Lanes: kernel.Lanes{MapFD: losses}})
		require.NoError(t, err)
		waiting, result := make(chan bool), make(chan error)
		go func() { result <- k.Wait(time.Time{}, func(bool) bool { close(waiting); return false }) }()
		<-waiting
		k.Interrupt()
		require.ErrorIs(t, <-result, os.ErrDeadlineExceeded)
		require.NoError(t, k.Unhook())
		k.Free()
	}
}
