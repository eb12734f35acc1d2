package engine

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/internal/stream"
	"github.com/stretchr/testify/require"
)

// rig is a Follower, its fake kernel, and the rings it adds to.
type rig struct {
	Follower
	gate    Gate
	rings   stream.Rings
	online  []int
	listing error
	dead    map[int]bool // rings
	opens   error        // of Add and Reopen
	sets    error        // of Renew
	renewed []int        // rings
	changes chan bool
	waits   chan time.Duration
	added   []int // CPUs of the rings
}

func newRig(room int) *rig {
	g := &rig{dead: map[int]bool{}, changes: make(chan bool), waits: make(chan time.Duration)}
	g.gate.Open(func() {})
	g.rings.Init(stream.RingsOptions{Room: room})
	g.Init(FollowerOptions{
		Kernel: &kernel.Parts{Hotplug: g, Returning: g, Watcher: g}, Gate: &g.gate, Len: g.rings.Len, Room: room, full: "no room for CPU %d",
		Add:   func(memory *raw.Ring) { g.rings.Add(&stream.Ring{Raw: memory}) },
		Renew: func(ring int) error { g.renewed = append(g.renewed, ring); return g.sets },
	})
	return g
}

var errSmall = &host.MapError{Reason: "it has no entry for that CPU"}

func (g *rig) CPUs() []int            { return nil }
func (g *rig) Online() ([]int, error) { return g.online, g.listing }
func (g *rig) Index(cpu int) int      { return slices.Index(g.added, cpu) }
func (g *rig) Alive(ring int) bool    { return !g.dead[ring] }
func (g *rig) Reopen(ring int) error  { delete(g.dead, ring); return g.opens }
func (g *rig) StopWatching()          { close(g.changes) }
func (g *rig) WatchErr() error        { return nil }

func (g *rig) Add(cpu int) (*raw.Ring, error) {
	r := ringtest.New(4096, raw.LayoutRawTime, 0).Raw()
	if g.opens == nil {
		g.added = append(g.added, cpu)
	}
	return r, g.opens
}

func (g *rig) Changed(atMost time.Duration) bool {
	g.waits <- atMost
	return <-g.changes
}

func (g *rig) counts() [2]uint64 {
	reopened, added := g.Counts()
	return [2]uint64{reopened, added}
}

func TestReplug(t *testing.T) {
	g := newRig(2)
	g.online = []int{7, 3}
	require.NoError(t, g.Replug())
	require.Equal(t, 1, g.Index(3))
	require.Equal(t, []int{0, 1}, g.renewed)
	require.NoError(t, g.Replug(), "there is nothing to do")
	g.dead[1] = true
	require.NoError(t, g.Replug())
	require.Equal(t, []int{0, 1, 1}, g.renewed)
	require.Equal(t, [2]uint64{1, 2}, g.counts())
	require.NoError(t, g.Err())

	g.online = append(g.online, 8)
	require.NoError(t, g.Replug(), "it is no use to try again")
	require.ErrorContains(t, g.Err(), "no room for CPU 8")
	require.Equal(t, 1, g.gate.Inside())
	g.gate.Close()
	g.dead[0] = true
	require.NoError(t, g.Replug())
	require.True(t, g.dead[0], "nobody touches rings of a closed reader")
}

// Replug retries after failures, except final ones.
func TestFailures(t *testing.T) {
	g := newRig(3)
	g.online, g.opens = []int{1}, syscall.EMFILE
	require.Equal(t, syscall.EMFILE, g.Replug())
	require.Equal(t, syscall.EMFILE, g.Err())
	g.opens = errSmall
	require.NoError(t, g.Replug())
	require.Equal(t, errSmall, g.Err(), "Stats still say so")
	g.opens = syscall.ENODEV
	require.NoError(t, g.Replug(), "it is gone again")
	require.NoError(t, g.Err())

	g.opens, g.sets = nil, syscall.EPERM
	require.Equal(t, syscall.EPERM, g.Replug())
	require.Equal(t, syscall.EPERM, g.Replug(), "the entry is still not set")
	require.Equal(t, [2]uint64{0, 1}, g.counts())
	g.sets = nil
	require.NoError(t, g.Replug())
	require.Equal(t, []int{0, 0, 0}, g.renewed)
	require.NoError(t, g.Replug())
	require.Len(t, g.renewed, 3)

	g.listing = syscall.EIO
	require.Equal(t, syscall.EIO, g.Replug())
	require.Equal(t, syscall.EIO, g.Err())
}

// After a failure, Replug runs again a second later, without a change.
func TestFollow(t *testing.T) {
	g := newRig(1)
	g.online, g.sets = []int{1}, syscall.EPERM
	g.Start()
	require.Zero(t, <-g.waits)
	g.changes <- true
	require.Equal(t, time.Second, <-g.waits)
	g.sets = nil
	g.changes <- true
	require.Zero(t, <-g.waits)
	require.NoError(t, g.Err())
	g.Stop()
}
