package trace

import (
	"bytes"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

var (
	idle = thread{}
	a    = thread{PID: 10, TID: 11, Comm: [16]byte{'a'}}
	b    = thread{PID: 20, TID: 20, Comm: [16]byte{'b', '"', '\n'}}
)

// draw has f tell of events from 1000 ns on, and returns what a viewer makes of it.
func draw(t *testing.T, cpus []int, f func(*timeline)) (*readTrace, summary) {
	t.Helper()
	var out bytes.Buffer
	var sum summary
	w := newTrace(&out)
	l, err := newTimeline(w, 1000, cpus, &sum)
	require.NoError(t, err)
	f(l)
	require.NoError(t, l.finish(9000))
	require.NoError(t, w.close(map[string]any{}))
	return read(t, &out), sum
}

// Who ran before the first switch is known then, and who runs at the end ends there.
func TestSlices(t *testing.T) {
	got, sum := draw(t, []int{3}, func(l *timeline) {
		require.NoError(t, l.switched(3, 2000, a, b, true))
		require.NoError(t, l.switched(3, 3001, b, idle, false))
		require.NoError(t, l.switched(3, 4000, idle, a, false))
	})
	args := func(t thread) map[string]any { return map[string]any{"pid": float64(t.PID), "tid": float64(t.TID)} }
	require.Equal(t, []readSlice{
		{"a", 0, 1, args(a)},
		{"b\"\n", 1, 2.001, args(b)},
		{"a", 3, 8, args(a)},
	}, got.tracks["CPU 3"].slices)
	require.EqualValues(t, 3, sum.Slices)
}

// A CPU that nobody ran on at first has no slice for that.
func TestIdleAtFirst(t *testing.T) {
	got, _ := draw(t, []int{0}, func(l *timeline) {
		require.NoError(t, l.switched(0, 2000, idle, a, false))
	})
	require.Len(t, got.tracks["CPU 0"].slices, 1)
	require.EqualValues(t, 1, got.tracks["CPU 0"].slices[0].begin)
}

// Who does something runs, whether or not a switch has told so before.
func TestInstantAtFirst(t *testing.T) {
	got, _ := draw(t, []int{0}, func(l *timeline) {
		require.NoError(t, l.executed(0, 2000, a, "/bin/a"))
		require.NoError(t, l.switched(0, 3000, a, idle, false))
	})
	require.Len(t, got.tracks["CPU 0"].slices, 1)
	require.Equal(t, readSlice{"a", 0, 2, map[string]any{"pid": 10., "tid": 11.}}, got.tracks["CPU 0"].slices[0])
	require.Equal(t, 10, got.tracks["CPU 0"].instants[0].running)
}

// Where a switch must have been that was not seen, the slice ends without a claim of when, and who runs is who acts.
func TestUnseen(t *testing.T) {
	got, sum := draw(t, []int{0}, func(l *timeline) {
		require.NoError(t, l.switched(0, 2000, idle, a, false))
		require.NoError(t, l.executed(0, 3000, b, "/bin/b"))
		require.NoError(t, l.switched(0, 4000, a, idle, true))
	})
	require.Len(t, got.tracks["CPU 0"].slices, 2)
	require.Equal(t, 20, got.tracks["CPU 0"].instants[0].running)
	require.EqualValues(t, 2, sum.Unseen)
}

// While events are lost nobody is said to run, but that they are lost.
func TestLost(t *testing.T) {
	got, sum := draw(t, []int{0}, func(l *timeline) {
		require.NoError(t, l.switched(0, 2000, idle, a, false))
		require.NoError(t, l.lost(0, 3000, 5000, 7))
		require.NoError(t, l.switched(0, 5500, b, a, false))
		require.NoError(t, l.lost(0, 6000, 7000, 1))
	})
	type slice struct {
		name       string
		begin, end float64
	}
	var all []slice
	for _, s := range got.tracks["CPU 0"].slices {
		all = append(all, slice{s.name, s.begin, s.end})
	}
	require.Equal(t, []slice{{"a", 1, 2}, {"7 lost", 2, 4}, {"b\"\n", 4, 4.5}, {"a", 4.5, 5}, {"1 lost", 5, 6}}, all)
	require.EqualValues(t, 8, sum.Lost)
}

// Losses before anything else: since when is not known, but not before the recording.
func TestLostAtFirst(t *testing.T) {
	got, _ := draw(t, []int{0}, func(l *timeline) {
		require.NoError(t, l.lost(0, 0, 2000, 7))
	})
	require.Equal(t, []readSlice{{"7 lost", 0, 1, map[string]any{"events": 7.}}}, got.tracks["CPU 0"].slices)
}

// A CPU that appears meanwhile gets a track.
func TestNewCPU(t *testing.T) {
	got, _ := draw(t, []int{0}, func(l *timeline) {
		require.NoError(t, l.exited(5, 2000, a, 3<<8))
		require.NoError(t, l.exited(5, 2000, b, 9))
		require.NoError(t, l.forked(5, 3000, a, thread{PID: 10, TID: 12}))
		require.NoError(t, l.forked(5, 3000, a, thread{PID: 13, TID: 13}))
		require.NoError(t, l.executed(5, 4000, b, "/bin/ö"))
	})
	var all []string
	for _, i := range got.tracks["CPU 5"].instants {
		all = append(all, i.what)
	}
	require.Equal(t, []string{"exit", "exit", "clone", "fork", "exec"}, all)
	require.EqualValues(t, 3, got.tracks["CPU 5"].instants[0].args["status"])
	require.Equal(t, "SIGKILL", got.tracks["CPU 5"].instants[1].args["signal"])
	require.Equal(t, "/bin/ö", got.tracks["CPU 5"].instants[4].args["file"])
}

// An arrow goes from a fork to the child's first run, wherever that is, and to no later one.
func TestArrows(t *testing.T) {
	child, sibling := thread{PID: 13, TID: 13}, thread{PID: 10, TID: 14}
	got, _ := draw(t, []int{0, 1}, func(l *timeline) {
		require.NoError(t, l.switched(0, 2000, idle, a, false))
		require.NoError(t, l.forked(0, 3000, a, child))
		require.NoError(t, l.forked(0, 3500, a, sibling))
		require.NoError(t, l.switched(1, 4000, idle, child, false))
		require.NoError(t, l.switched(0, 4500, a, sibling, true))
		require.NoError(t, l.switched(1, 5000, child, idle, false))
		require.NoError(t, l.switched(1, 6000, idle, child, false))
		require.NoError(t, l.forked(1, 6500, child, thread{PID: 15, TID: 15})) // which does not run
	})
	require.Equal(t, []readArrow{
		{from: "CPU 0", to: "CPU 1", left: 2, arrived: 3, parent: 11, child: 13},
		{from: "CPU 0", to: "CPU 0", left: 2.5, arrived: 3.5, parent: 11, child: 14},
	}, got.arrows)
}

// Where the child's first run may be what was not seen, no arrow claims to know it.
func TestNoArrow(t *testing.T) {
	child := thread{PID: 13, TID: 13}
	for name, missed := range map[string]func(*timeline) error{
		"lost":    func(l *timeline) error { return l.lost(1, 4000, 5000, 7) },
		"unseen":  func(l *timeline) error { return l.executed(0, 5000, b, "/bin/b") },
		"between": func(l *timeline) error { return l.switched(0, 5000, b, idle, false) },
	} {
		got, _ := draw(t, []int{0, 1}, func(l *timeline) {
			require.NoError(t, l.switched(0, 2000, idle, a, false))
			require.NoError(t, l.forked(0, 3000, a, child))
			require.NoError(t, missed(l))
			require.NoError(t, l.switched(1, 6000, idle, child, false))
		})
		require.Empty(t, got.arrows, name)
	}
}

func TestCounters(t *testing.T) {
	got, _ := draw(t, []int{0, 1}, func(l *timeline) {
		for n := range 2 {
			require.NoError(t, l.counters("", 2000, []perfbuf.RingStats{{CPU: 0, Used: 5 * n, Lost: 1}, {CPU: 1, Used: 7}}))
		}
	})
	require.Equal(t, map[string][]float64{
		"ring of CPU 0 bytes used": {0, 5}, "lost on CPU 0 events": {1, 1},
		"ring of CPU 1 bytes used": {7, 7}, "lost on CPU 1 events": {0, 0},
	}, got.counters)
}
