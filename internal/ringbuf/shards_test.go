//go:build linux && cgo

package ringbuf

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
)

// replug does what a reader does when Changed returns, and returns the rings that were added.
func replug(t *testing.T, h kernel.Hotplug) (added []int) {
	t.Helper()
	ids, err := h.Online()
	require.NoError(t, err)
	for _, id := range ids {
		if h.Index(id) >= 0 {
			continue
		}
		r, err := h.Add(id)
		require.NoError(t, err)
		r.SetFields(kerneltest.RingTimeAt, kerneltest.RingCPUAt)
		added = append(added, h.Index(id))
	}
	return added
}

// A ring buffer per CPU, in an array of maps. Those that come later are found, in the place of one
// too, and wake.
func TestKernelShards(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	a, b := kerneltest.NewRingBuf(t, 4096), kerneltest.NewRingBuf(t, 8192)
	e.SetShard(0, a)
	e.SetShard(5, a)
	e.SetShard(7, b)
	k := open(t, e.ShardsFD(), kernel.Lanes{MapFD: e.ShardLanesFD()})
	rings := k.Rings()
	require.Len(t, rings, 2, "one is there twice")
	require.Equal(t, []int{0, 7}, []int{rings[0].CPU(), rings[1].CPU()})
	require.EqualValues(t, []uint64{4096, 8192}, []uint64{rings[0].Size(), rings[1].Size()})
	h := k.(kernel.Hotplug)
	require.Empty(t, replug(t, h))

	old := rings[0]
	e.Emit(0, kerneltest.RingEmit{To: "shard", Count: 3, Size: 40})
	e.SetShard(0, kerneltest.NewRingBuf(t, 4096))
	e.Emit(0, kerneltest.RingEmit{To: "shard", Count: 4, Size: 40})
	ids, err := h.Online()
	require.NoError(t, err)
	require.Len(t, ids, 3)
	require.Equal(t, -1, h.Index(ids[0]))
	fresh, err := h.Add(ids[0])
	require.NoError(t, err)
	fresh.SetFields(kerneltest.RingTimeAt, kerneltest.RingCPUAt)
	require.Equal(t, 2, h.Index(ids[0]))
	require.Equal(t, 0, fresh.CPU())
	require.Empty(t, replug(t, h))

	s := seen{}
	events, _ := read(t, old)
	require.Len(t, events, 3)
	s.add(t, events)
	events, _ = read(t, fresh)
	require.Len(t, events, 4)
	s.add(t, events)

	require.NoError(t, k.Wait(time.Time{}, func(w bool) bool {
		if !w {
			e.Emit(0, kerneltest.RingEmit{To: "shard", Count: 1, Size: 40})
		}
		return w
	}), "the new one wakes")
	events, _ = read(t, fresh)
	s.add(t, events)
	require.EqualValues(t, seen{0: 8}, s)

	_, err = h.Add(1 << 30)
	require.ErrorIs(t, err, syscall.ENODEV, "it is gone again")
	require.ErrorContains(t, err, `map 1073741824 is no longer in map "shards"`)
	n, ok := k.(kernel.LostCounter).Lost(0)
	require.False(t, ok, "%d", n)
}

// Ring buffers that are replaced between the look that finds them and their mapping are left out.
func TestKernelReplacedBeforeMapped(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	e.SetShard(7, e.MapFD())
	leak.Check(t)
	o := Opener{FD: e.ShardsFD()}
	defer o.Close()
	require.NoError(t, o.check())
	there, err := o.look()
	require.NoError(t, err)
	gone := shard{id: 1 << 30}
	_, err = o.open([]shard{gone}, kernel.Setup{})
	require.ErrorContains(t, err, "it contains no maps yet")
	k, err := o.open(append([]shard{gone}, there...), kernel.Setup{})
	require.NoError(t, err)
	defer kernel.Discard(k)
	require.Len(t, k.Rings(), 1)
	require.Equal(t, 7, k.Rings()[0].CPU())
}

// However often a ring buffer is replaced, what it holds is read, and then its memory and
// descriptor are let go.
func TestKernelReplacedShards(t *testing.T) {
	mappings := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return strings.Count(string(maps), "bpf-map")
	}
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Shards: 1})
	before := mappings()
	e.SetShard(0, kerneltest.NewRingBuf(t, 4096))
	k := open(t, e.ShardsFD())
	h := k.(kernel.Hotplug)
	mapped := mappings() - before
	s := seen{}
	const rounds = 5
	for i := range rounds {
		old := k.(*Shards).buffers[i]
		e.Emit(0, kerneltest.RingEmit{To: "shard", Count: 3, Size: 40})
		e.SetShard(0, kerneltest.NewRingBuf(t, 8192))
		require.Equal(t, []int{i + 1}, replug(t, h))
		for range 3 {
			require.Empty(t, replug(t, h))
			require.False(t, old.vacated, "it is not read")
		}
		events, _ := read(t, old.memory)
		s.add(t, events)
		require.Empty(t, replug(t, h))
		require.True(t, old.vacated)
		require.Equal(t, old.memory.Head(), old.memory.Tail())
		require.Equal(t, -1, h.Index(old.id))
		events, _ = read(t, old.memory)
		require.Empty(t, events)
		require.Equal(t, mapped, mappings()-before)
	}
	require.EqualValues(t, seen{0: 3 * rounds}, s)
}

// Whoever waits for several kernels is woken by any of them, by shards that have come since too.
func TestKernelGroup(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	e.SetShard(7, kerneltest.NewRingBuf(t, 4096))
	shared, shards := open(t, e.MapFD()), open(t, e.ShardsFD())
	_, name := shards.(kernel.Named).Map()
	require.Equal(t, "shards", name)
	g, err := shared.Group()
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, g.Add(shards))
	e.SetShard(0, kerneltest.NewRingBuf(t, 4096))
	require.Equal(t, []int{1}, replug(t, shards.(kernel.Hotplug)))
	for range 20 {
		for _, to := range []string{"shard", "shared"} {
			require.NoError(t, g.Wait(time.Time{}, func(w bool) bool {
				if !w {
					e.Emit(0, kerneltest.RingEmit{To: to, Count: 1, Size: 40})
				}
				return w
			}))
			read(t, shared.Rings()[0])
			read(t, shards.(*Shards).buffers[1].memory)
		}
	}
}

// The same in a hash of maps, with keys that are no CPUs.
func TestKernelGroups(t *testing.T) {
	kerneltest.RequireCPUs(t, 2, "of one group")
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	e.SetGroup(3, kerneltest.NewRingBuf(t, 4096))
	k := open(t, e.GroupsFD())
	require.Equal(t, -1, k.Rings()[0].CPU())
	e.SetGroup(0, kerneltest.NewRingBuf(t, 1<<16))
	h := k.(kernel.Hotplug)
	require.Equal(t, []int{1}, replug(t, h))
	memory := k.(*Shards).buffers[1].memory
	s := seen{}
	for _, cpu := range kerneltest.OnlineCPUs(t)[:2] {
		e.Emit(cpu, kerneltest.RingEmit{To: "group", Count: 100, Size: 72})
	}
	events, _ := read(t, memory)
	s.add(t, events)
	require.Len(t, events, 200)
}

// Changed has its user look every now and then, until it is stopped.
func TestKernelChanged(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	e.SetShard(0, e.MapFD())
	k := open(t, e.ShardsFD())
	h := k.(kernel.Watcher)
	require.True(t, h.Changed(0))
	require.NoError(t, h.WatchErr())
	h.StopWatching()
	require.False(t, h.Changed(0))
	h.StopWatching()
}

// Each CPU's lanes have their share of its own ring buffer, also of one that comes later. CPUs
// without one, and ring buffers that are not a CPU's, have that of the smallest.
func TestKernelShardsOfSizes(t *testing.T) {
	kerneltest.RequireCPUs(t, 2, "with ring buffers of their own")
	cpus := kerneltest.OnlineCPUs(t)
	small, large := cpus[0], cpus[1]
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Shards: large + 1})
	e.SetShard(small, kerneltest.NewRingBuf(t, 4096))
	e.SetShard(large, kerneltest.NewRingBuf(t, 1<<15))
	halves := kernel.Lanes{MapFD: e.ShardLanesFD(), Percent: []int{50}}
	k := open(t, e.ShardsFD(), halves)
	written := func(cpu int, to string) uint64 {
		t.Helper()
		before := k.(kernel.OutputCounter).Outputs().CPUs[cpu]
		e.Emit(cpu, kerneltest.RingEmit{To: to, Count: 512, Size: 64})
		after := k.(kernel.OutputCounter).Outputs().CPUs[cpu]
		require.Equal(t, uint64(512), after.Written-before.Written+after.Shed-before.Shed)
		return after.Written - before.Written
	}
	const record = 72 // header, 64 bytes
	require.Equal(t, uint64(2048/record), written(small, "shard"))
	require.Equal(t, uint64(1<<14/record), written(large, "shard"))
	e.SetShard(small, kerneltest.NewRingBuf(t, 1<<14))
	require.Len(t, replug(t, k.(kernel.Hotplug)), 1)
	require.Equal(t, uint64(1<<13/record), written(small, "shard"))

	e.SetGroup(small/2, kerneltest.NewRingBuf(t, 1<<14))
	e.SetGroup(small/2+1, kerneltest.NewRingBuf(t, 4096))
	k = open(t, e.GroupsFD(), halves)
	require.Equal(t, uint64(2048/record), written(small, "group"))
}
