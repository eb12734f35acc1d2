package trace

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

var (
	idle    = thread{}
	a       = thread{PID: 10, TID: 11, Comm: [16]byte{'a'}}
	b       = thread{PID: 20, TID: 20, Comm: [16]byte{'b', '"', '\n'}}
	child   = thread{PID: 13, TID: 13, Comm: [16]byte{'c'}}
	sibling = thread{PID: 10, TID: 14, Comm: [16]byte{'s'}} // of a
)

// draw has f draw events from 1000 ns on, and returns what a viewer makes of it.
func draw(t *testing.T, cpus []int, f func(*timeline)) (*readTrace, summary) {
	t.Helper()
	var out bytes.Buffer
	l := newTimeline(&out, 1000, cpus)
	f(l)
	l.finish(9000)
	require.NoError(t, l.trace.close(map[string]any{}))
	return read(t, &out), l.sum
}

// What runs on a CPU from 0 to 8 µs, and what is done there.
func TestTrack(t *testing.T) {
	for name, c := range map[string]struct {
		events       func(*timeline)
		slices       []string
		marks        []string
		unseen, lost uint64
	}{
		"what ran before the first switch is known then, and what runs at the end ends there": {func(l *timeline) {
			l.switched(0, 2000, a, b, true)
			l.switched(0, 3001, b, idle, false)
			l.switched(0, 4000, idle, a, false)
		}, []string{"a 0-1 [pid:10 tid:11] [preempted:true]", "b\"\n 1-2.001 [pid:20 tid:20] []", "a 3-8 [pid:10 tid:11] [end:of the recording]"}, nil, 0, 0},
		"idle at first": {func(l *timeline) { l.switched(0, 2000, idle, a, false) }, []string{"a 1-8 [pid:10 tid:11] [end:of the recording]"}, nil, 0, 0},
		"a thread that acts runs, and has before": {func(l *timeline) {
			l.executed(0, 2000, a, "/bin/ö")
			l.switched(0, 3000, a, idle, false)
		}, []string{"a 0-2 [pid:10 tid:11] []"}, []string{"exec 1 in 10 [file:/bin/ö pid:10 tid:11]"}, 0, 0},
		"switches that were not seen: nothing claims to know when": {func(l *timeline) {
			l.switched(0, 2000, idle, a, false)
			l.executed(0, 3000, b, "/bin/b")
			l.switched(0, 4000, a, idle, true)
		}, []string{"a 1-2 [pid:10 tid:11] [end:not known]", "b\"\n 2-3 [pid:20 tid:20] [end:not known]"}, []string{"exec 2 in 20 [file:/bin/b pid:20 tid:20]"}, 2, 0},
		"while events are lost nothing is said to run": {func(l *timeline) {
			l.switched(0, 2000, idle, a, false)
			l.lost(0, 3000, 5000, 7, perfbuf.KindLost, "")
			l.switched(0, 5500, b, a, false)
			l.lost(0, 6000, 7000, 1, perfbuf.KindLost, "")
		}, []string{"a 1-2 [pid:10 tid:11] [end:not known]", "7 lost 2-4 [events:7] []", "b\"\n 4-4.5 [pid:20 tid:20] []", "a 4.5-5 [pid:10 tid:11] [end:not known]", "1 lost 5-6 [events:1] []"}, nil, 0, 8},
		"lost before all else: not before the recording": {func(l *timeline) { l.lost(0, 0, 2000, 7, perfbuf.KindLost, "") }, []string{"7 lost 0-1 [events:7] []"}, nil, 0, 7},
		"marks": {func(l *timeline) {
			l.exited(0, 2000, a, 3<<8)
			l.exited(0, 2000, a, 9)
			l.forked(0, 3000, a, sibling)
			l.forked(0, 3000, a, child)
		}, []string{"a 0-8 [pid:10 tid:11] [end:of the recording]"}, []string{"exit 1 in 10 [pid:10 status:3 tid:11]", "exit 1 in 10 [pid:10 signal:SIGKILL tid:11]",
			"clone 2 in 10 [child_pid:10 child_tid:14 pid:10 tid:11]", "fork 2 in 10 [child_pid:13 child_tid:13 pid:10 tid:11]"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, sum := draw(t, nil, c.events) // the CPU gets its track when it comes
			var slices, marks []string
			for _, s := range got.tracks["CPU 0"].slices {
				slices = append(slices, strings.ReplaceAll(fmt.Sprintf("%s %v-%v %v %v", s.name, s.begin, s.end, s.args, s.ended), "map", ""))
			}
			for _, i := range got.tracks["CPU 0"].instants {
				marks = append(marks, strings.ReplaceAll(fmt.Sprintf("%s %v in %d %v", i.what, i.time, i.running, i.args), "map", ""))
			}
			require.Equal(t, c.slices, slices)
			require.Equal(t, c.marks, marks)
			require.Equal(t, []uint64{c.unseen, c.lost}, []uint64{sum.Unseen, sum.Lost})
		})
	}
}

// An arrow goes from a fork to the child's first run, wherever that is, and to no later one.
func TestArrows(t *testing.T) {
	got, _ := draw(t, []int{0, 1}, func(l *timeline) {
		l.switched(0, 2000, idle, a, false)
		l.forked(0, 3000, a, child)
		l.forked(0, 3500, a, sibling)
		l.switched(1, 4000, idle, child, false)
		l.switched(0, 4500, a, sibling, true)
		l.switched(1, 5000, child, idle, false)
		l.switched(1, 6000, idle, child, false)
		l.forked(1, 6500, child, thread{PID: 15, TID: 15}) // which does not run
	})
	require.Equal(t, []readArrow{
		{from: "CPU 0", to: "CPU 1", left: 2, arrived: 3, parent: 11, child: 13},
		{from: "CPU 0", to: "CPU 0", left: 2.5, arrived: 3.5, parent: 11, child: 14},
	}, got.arrows)
}

// Where the child's first run may be what was not seen, no arrow claims to know it.
func TestNoArrow(t *testing.T) {
	for name, missed := range map[string]func(*timeline){
		"lost":    func(l *timeline) { l.lost(1, 4000, 5000, 7, perfbuf.KindLost, "") },
		"unseen":  func(l *timeline) { l.executed(0, 5000, b, "/bin/b") },
		"between": func(l *timeline) { l.switched(0, 5000, b, idle, false) },
	} {
		got, _ := draw(t, []int{0, 1}, func(l *timeline) {
			l.switched(0, 2000, idle, a, false)
			l.forked(0, 3000, a, child)
			missed(l)
			l.switched(1, 6000, idle, child, false)
		})
		require.Empty(t, got.arrows, name)
	}
}

// Each host of a fleet has tracks of its own. Gaps that overlap are one behind the other.
func TestHosts(t *testing.T) {
	got, sum := draw(t, nil, func(l *timeline) {
		l.lost(l.host("web", 1), 2000, 3000, 7, perfbuf.KindLost, "")
		l.lost(l.host("web", -1), 0, 4000, 0, perfbuf.KindLost, "agent down")
		l.lost(l.host("web", -1), 3000, 5000, 3, perfbuf.KindLost, "spool full")
		l.lost(l.host("db", 1), 4000, 6000, 1, perfbuf.KindLost, "")
	})
	slices := map[string]string{}
	for name, track := range got.tracks {
		for _, s := range track.slices {
			slices[name] += fmt.Sprintf("%s %v-%v of %v;", s.name, s.begin, s.end, s.args["events"])
		}
	}
	require.Equal(t, map[string]string{
		"web CPU 1": "7 lost 1-2 of 7;", "web CPU not known": "agent down 0-3 of 0;spool full 3-4 of 3;", "db CPU 1": "1 lost 3-5 of 1;",
	}, slices)
	require.Equal(t, uint64(11), sum.Lost)
}

func TestCounters(t *testing.T) {
	got, _ := draw(t, []int{0, 1}, func(l *timeline) {
		for n := range 2 {
			l.counters("", 2000, []perfbuf.RingStats{{CPU: 0, Used: 5 * n, Lost: 1}, {CPU: 1, Used: 7}})
		}
	})
	require.Equal(t, map[string][]float64{
		"ring of CPU 0 bytes used": {0, 5}, "lost on CPU 0 events": {1, 1},
		"ring of CPU 1 bytes used": {7, 7}, "lost on CPU 1 events": {0, 0},
	}, got.counters)
}

// A write that fails ends the trace, whatever comes after it.
func TestWriteFails(t *testing.T) {
	l := newTimeline(failing{}, 0, []int{0})
	for range 1000 {
		l.counters("", 0, make([]perfbuf.RingStats, 2))
	}
	require.ErrorIs(t, l.trace.err, errFull)
	require.ErrorIs(t, l.trace.close(nil), errFull)
}

var errFull = fmt.Errorf("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }
