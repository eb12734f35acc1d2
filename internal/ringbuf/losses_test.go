//go:build linux && cgo

package ringbuf

import (
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// counting opens the shared ring buffer, of a page or so, and what programs count of it.
func counting(t *testing.T, e *kerneltest.RingEmitter) *Buffers {
	return open(t, e.MapFD(), kernel.Lanes{MapFD: e.LanesFD()}).(*Buffers)
}

// Outputs that a full ring buffer refuses are counted, with the times of the first and the last,
// and told once.
func TestKernelLosses(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 1 << 14})
	fill := kerneltest.RingEmit{Count: 400, Size: 64}
	for _, cpu := range kerneltest.OnlineCPUs(t) {
		e.Emit(cpu, fill) // before anybody counts
	}
	k := counting(t, e)
	require.Empty(t, k.Losses(nil))
	var lost uint64
	for round, emit := range []kerneltest.RingEmit{fill, {Count: 400, Stamped: true}} {
		for _, cpu := range kerneltest.OnlineCPUs(t) {
			_, before := e.Counts(cpu)
			start := k.Now()
			e.Emit(cpu, emit)
			first := k.Now()
			if round > 0 {
				require.Equal(t, syscall.EAGAIN, e.EmitCopy(cpu))
			} else {
				e.Emit(cpu, kerneltest.RingEmit{Count: 1, Size: 64})
			}
			_, after := e.Counts(cpu)
			l := k.Losses(nil)
			require.Len(t, l, 1)
			require.Equal(t, kernel.CPULosses{CPU: cpu, Count: after - before, First: l[0].First, Last: l[0].Last}, l[0])
			require.Equal(t, uint64(401), l[0].Count)
			require.LessOrEqual(t, start, l[0].First)
			require.LessOrEqual(t, l[0].First, first)
			require.LessOrEqual(t, first, l[0].Last)
			require.LessOrEqual(t, l[0].Last, k.Now())
			require.Empty(t, k.Losses(nil))
			lost += 401
		}
	}
	n, ok := k.Lost(0)
	require.True(t, ok)
	require.Equal(t, lost, n)
	events, _ := read(t, k.Rings()[0])
	require.NotEmpty(t, events)
	e.Emit(0, kerneltest.RingEmit{Count: 7, Size: 64})
	require.Empty(t, k.Losses(nil), "there was room")
	for _, c := range k.Outputs().CPUs {
		want := kernel.CPUOutputs{CPU: c.CPU}
		if slices.Contains(kerneltest.OnlineCPUs(t), c.CPU) {
			want.Attempted, want.Full = 802, 802
		}
		if c.CPU == 0 {
			want.Attempted, want.Written = 809, 7
		}
		require.Equal(t, want, c)
	}
}

// No loss is missed or told twice while programs fail on all CPUs, and none lies before the time of
// the first.
func TestKernelLossesMeanwhile(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 1 << 14})
	k := counting(t, e)
	var all sync.WaitGroup
	var running atomic.Int32
	for _, cpu := range kerneltest.OnlineCPUs(t) {
		running.Add(1)
		all.Go(func() {
			for range 300 {
				e.Emit(cpu, kerneltest.RingEmit{Count: 100, Size: 64})
			}
			running.Add(-1)
		})
	}
	counted, first := map[int]uint64{}, map[int]uint64{}
	for over := false; !over; {
		over = running.Load() == 0
		for _, l := range k.Losses(nil) {
			require.NotZero(t, l.Count)
			require.GreaterOrEqual(t, l.First, first[l.CPU])
			require.LessOrEqual(t, l.First, l.Last)
			require.LessOrEqual(t, l.Last, k.Now())
			counted[l.CPU] += l.Count
			first[l.CPU] = l.First
		}
	}
	all.Wait()
	for _, cpu := range kerneltest.OnlineCPUs(t) {
		_, failed := e.Counts(cpu)
		require.Equal(t, failed, counted[cpu])
	}
}

// Programs that interrupt others while these count lose no count. An interrupt has come in the
// middle of one after some rounds.
func TestKernelLossesInInterrupts(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 1 << 14, Interrupt: true})
	k := counting(t, e)
	stop := e.Tick(0)
	for range 5000 {
		e.Emit(0, kerneltest.RingEmit{Count: 512, Size: 32})
	}
	stop()
	nested := e.Ticks(0)
	require.NotZero(t, nested)
	attempted, failed := e.Counts(0)
	n, ok := k.Lost(0)
	require.True(t, ok)
	require.Equal(t, failed, n)
	require.Equal(t, attempted, k.Outputs().CPUs[0].Attempted)
	t.Logf("%d outputs, %d in interrupts", attempted, nested)
}

// CPUs that the map has no entry of their own for are counted together, in the last one.
func TestKernelLossesOfFewEntries(t *testing.T) {
	kerneltest.Require(t)
	kerneltest.RequireCPUs(t, 2, "of which one has no entry")
	const mmapable = 1 << 10 // BPF_F_MMAPABLE
	m, err := libbpfgo.CreateMap(libbpfgo.MapTypeArray, "lanes", 4, 64+128, 1, &libbpfgo.BPFMapCreateOpts{MapFlags: mmapable})
	require.NoError(t, err)
	l, err := host.OpenLanes(kernel.Lanes{MapFD: m.FileDescriptor()}, 1<<14, true, 5)
	require.NoError(t, err)
	defer l.Close()
	value := make([]uint64, (64+128)/8)
	value[8+5], value[8+7] = 3, 7 // how many found no room, and when the last did
	require.NoError(t, m.Update(unsafe.Pointer(new(uint32)), unsafe.Pointer(&value[0])))
	require.NoError(t, syscall.Close(m.FileDescriptor()))
	require.Equal(t, []kernel.CPULosses{{CPU: -1, Count: 3, First: 5, Last: 7}}, l.Losses(nil), "its time is not stored yet")
	require.Equal(t, []kernel.CPUOutputs{{CPU: -1, Attempted: 3, Full: 3}}, l.Outputs())
}

// After Free the counts are those of the end. Where nobody counts there are none.
func TestKernelLossesStay(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Bytes: 1 << 14})
	k, err := (&Opener{FD: e.MapFD()}).Open(kernel.Setup{Lanes: kernel.Lanes{MapFD: e.LanesFD()}})
	require.NoError(t, err)
	e.Emit(0, kerneltest.RingEmit{Count: 10, Size: 64})
	k.Free()
	b := k.(*Buffers)
	require.Equal(t, kernel.CPUOutputs{Attempted: 10, Written: 10}, b.Outputs().CPUs[0])
	require.Empty(t, b.Losses(nil))

	none := open(t, e.MapFD()).(*Buffers)
	require.Empty(t, none.Outputs().CPUs)
	require.Empty(t, none.Losses(nil))
	_, ok := none.Lost(0)
	require.False(t, ok)
}
