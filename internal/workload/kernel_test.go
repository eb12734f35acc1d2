//go:build linux && cgo

package workload

import (
	"os"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/stretchr/testify/require"
)

func load(t *testing.T, c Config) *Programs {
	t.Helper()
	if os.Geteuid() != 0 && os.Getenv("RINGFOLD_REQUIRE_KERNEL") != "1" {
		t.Skip("needs root")
	}
	p, err := Load(c)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// All programs together pass the verifier, and count outputs that no ring takes.
func TestKernelLoadAll(t *testing.T) {
	all := append(TracePrograms(), "stamped", "stamped_copy", "hold", "burst", "on_tick")
	p := load(t, Config{Maps: []Map{Events, More, Shared, Shards, Groups}, Programs: all})
	require.NoError(t, p.FillShards(os.Getpagesize()))
	require.NoError(t, p.Aim(Spread, true))
	require.NoError(t, p.Attach(Traced...))
	stop, err := p.Tick([]int{0}, 100*time.Microsecond)
	require.NoError(t, err)
	load, err := Start(p.ProgFD("burst"), Job{Kind: "mix", CPUs: []int{0, 0}}, Job{Kind: "burst", CPUs: []int{0}})
	require.NoError(t, err)
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, load.Stop())
	require.NoError(t, p.Output(0, Output{Count: 1000, Size: 64, To: Spread}))
	require.NoError(t, p.Stamped(0, Output{Count: 3, Every: 2}))
	p.StampedCopy(0)
	stop()
	require.NoError(t, p.Detach())
	time.Sleep(100 * time.Millisecond) // programs that run
	seen, err := p.Counts()
	require.NoError(t, err)
	require.Empty(t, Agree(seen))
	sum := seen[0].Sum()
	for _, s := range []Source{Syscall, Switch, Wakeup, Softirq, Hrtimer, Burst, Run, Tick, Copy} {
		require.NotZero(t, sum.Sources[s], "%v: %+v", s, sum)
	}
	require.NotZero(t, sum.To[Shared].Written)
	require.NotZero(t, sum.To[Shards].Written)
	require.Zero(t, sum.Other+sum.Busy)
}

// Outputs to lanes are counted by lane, with what a lane's limit sheds.
func TestKernelLanes(t *testing.T) {
	p := load(t, Config{Lanes: true})
	limits := make([]uint64, (64+2*128)/8)
	limits[0] = 1 << 32 // word of lane 0, in struct perfbuf_cpu of bpf/perfbuf_lanes.h
	require.NoError(t, bpf.MapSet(p.MapFD("lanes"), 0, limits...))
	require.NoError(t, p.Output(0, Output{Count: 3, Size: 64, To: Lane0}))
	require.NoError(t, p.Output(0, Output{Count: 5, Size: 64, To: Lane1}))
	seen, err := p.Counts()
	require.NoError(t, err)
	require.Empty(t, Agree(seen))
	require.Equal(t, MapCounts{Shed: 3}, seen[0].To(Lane0))
	sum := seen[0].Sum()
	require.Equal(t, [3]uint64{8, 3, 5}, [3]uint64{sum.Attempted, sum.Shed, sum.NoRing})
	attempted, written, err := p.LaneCount(1)
	require.NoError(t, err)
	require.Equal(t, [2]uint64{5, 0}, [2]uint64{attempted, written})
}
