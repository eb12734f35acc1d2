package top

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// fixed is a frame of so many CPUs that is always the same.
func fixed(cpus int, m source.Mode) frame {
	snap := func(k uint64) snapshot {
		s := snapshot{at: began.Add(time.Duration(k) * 61 * time.Second), mode: m, last: cpus / 2, first: map[int]uint64{}}
		for cpu := range cpus {
			weight := uint64(cpu*7919%101) + 1
			const size = 256 << 10
			used := int(k) * cpu * 7919 % 101 * size / 110
			r := perfbuf.RingStats{CPU: cpu, Size: size, Used: used, HighWater: min(used+size/10*(cpu%4), size), Armed: cpu%2 == 0, Samples: k * weight * 61_003, Bytes: k * weight * 61_003 * 88}
			if cpu%5 == 1 {
				r.Lost = k * weight * 97
			}
			s.stats.Rings = append(s.stats.Rings, r)
			if m == source.Unordered {
				s.first[cpu] = k * weight
			}
		}
		s.stats.Wakes, s.stats.Doorbell.Armed = k*12_345, cpus/2
		if m != source.Unordered {
			s.stats.Late, s.stats.MaxLateness = 0, 0
			s.stats.SpilledBytes = k * 5 << 20
		}
		if m == source.Slack {
			s.stats.Late, s.stats.MaxLateness = k*12, 5100*time.Microsecond
		}
		if m == source.Exact {
			s.stats.Barrier = perfbuf.BarrierStats{Provider: "map-in-map", Count: k, P50: 7600 * time.Microsecond, P99: 16200 * time.Microsecond}
		}
		return s
	}
	return newFrame(began, snap(1), snap(2))
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		cpus int
		mode source.Mode
		view view
	}{
		{2, source.Exact, view{width: 80, height: 24}},
		{2, source.Unordered, view{width: 40, height: 16}},
		{8, source.Unordered, view{width: 160, height: 18}},
		{128, source.Exact, view{width: 80, height: 24, offset: 60, byFullness: true}},
		{128, source.Slack, view{width: 30, height: 8}},
	} {
		name := fmt.Sprintf("%d-%v-%dx%d", c.cpus, c.mode, c.view.width, c.view.height)
		t.Run(name, func(t *testing.T) {
			c.view.source = "events (id 12)"
			got := ansi.Strip(c.view.render(fixed(c.cpus, c.mode))) + "\n"
			fits(t, c.view, got)
			golden(t, name, regexp.MustCompile(` +\n`).ReplaceAllString(got, "\n"))
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test -update writes %s anew", file)
}

// fits checks that a screen is as large as it may be.
func fits(t *testing.T, v view, screen string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	require.Len(t, lines, max(v.height, 1))
	for _, line := range lines {
		require.LessOrEqual(t, ansi.StringWidth(line), v.width, line)
	}
}

// A line per interval, and one at the end.
func TestCompact(t *testing.T) {
	var out strings.Builder
	require.NoError(t, printer{out: &out, format: cli.Compact}.frame(fixed(2, source.Exact)))
	require.NoError(t, printer{out: &out, format: cli.Compact}.final(fixed(2, source.Exact)))
	for seconds, want := range map[float64]string{0: "0:00", 61.9: "1:01", 3661: "1:01:01"} {
		require.Equal(t, want, clock(seconds))
	}
	require.Equal(t, "2:02 exact 43,002 events/s 3.6 MiB/s 67 lost/s use 75% high 85% late 0\n# 5,246,258 events delivered in 2m2s, 8,148 lost\n", out.String())
}

// Whatever the terminal's size, nothing is wider or higher, and nothing panics.
func TestAllSizes(t *testing.T) {
	f := fixed(8, source.Exact)
	f.Problem = strings.Repeat("much is wrong ", 20)
	for width := 0; width < 170; width += 1 + width/20 {
		for _, height := range []int{0, 1, 2, 5, 11, 12, 24} {
			v := view{width: width, height: height, source: "a map of a long name (id 4294967295), taken from a reader of 128 rings", offset: 3}
			fits(t, v, v.render(f)+"\n")
		}
	}
}

// Where a number is does not depend on how large it is.
func TestNothingJumps(t *testing.T) {
	v := view{width: 100, height: 20}
	none := newFrame(began, at(0, perfbuf.RingStats{Size: 1 << 16}), at(time.Second, perfbuf.RingStats{Size: 1 << 16}))
	much := newFrame(began, at(0, perfbuf.RingStats{Size: 1 << 16}), at(time.Second, perfbuf.RingStats{Size: 1 << 16, Used: 1 << 16, HighWater: 1 << 16,
		Samples: 123_456_789, Bytes: 9_999_999_999, Lost: 12_345_678}))
	much.Late, much.MaxLateness, much.SpilledBytes = 999_999, 60, 1<<50
	much.Problem = "something"
	a, b := strings.Split(ansi.Strip(v.render(none)), "\n"), strings.Split(ansi.Strip(v.render(much)), "\n")
	const tableHead = 7
	require.Contains(t, a[tableHead], "CPU RING")
	require.Equal(t, a[tableHead], b[tableHead])
	for i := range a {
		for _, label := range []string{"delivered", "late", "lost  ", "barrier", "spilled", "doorbell", "rings"} {
			x, y := strings.Index(a[i], label), strings.Index(b[i], label)
			require.Equal(t, x < 0, y < 0, label)
			if x >= 0 {
				require.Equal(t, ansi.StringWidth(a[i][:x]), ansi.StringWidth(b[i][:y]), label)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	f := fixed(2, source.Exact)
	require.Empty(t, warning(f))
	f.Corrupt = 2000
	require.Contains(t, warning(f), "2,000 stretches of memory were corrupt")
	f.hotplug = errors.New("no list")
	require.Contains(t, warning(f), "no list")
	f.Barrier.Stalled = 1.234
	require.Contains(t, warning(f), "waiting for 1.2s")
	f.Mode, f.Problem = source.Unordered, "exact mode: why not"
	require.Contains(t, warning(f), "exact mode: why not")

	f.Doorbell.Error = "none"
	require.Contains(t, ansi.Strip(strings.Join(grid(totals(f), 80), "\n")), "none: polls")
	f.Paused = true
	require.Contains(t, ansi.Strip(view{width: 80}.title(f)), "PAUSED · unordered")
}

func TestScroll(t *testing.T) {
	f := fixed(128, source.Exact)
	v := view{width: 80, height: 24}
	room := v.room(f)
	require.Greater(t, room, 10)
	for offset, want := range map[int]int{-1: 0, 0: 0, 5: 5, 127: 128 - room, 1 << 30: 128 - room} {
		v.offset = offset
		require.Equal(t, want, v.clamp(f).offset)
	}
	v.offset = 5
	require.Contains(t, ansi.Strip(v.render(f)), fmt.Sprintf("by CPU, 6-%d of 128", 5+room))
	require.Zero(t, v.clamp(fixed(2, source.Exact)).offset)
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		used, high, width int
		want              string
	}{
		{0, 0, 8, "········"},
		{1, 0, 8, "▏·······"}, // something is something
		{100, 100, 8, "████████"},
		{50, 75, 8, "████··│·"},
		{50, 50, 8, "████│···"},
		{50, 100, 8, "████···│"},
		{53, 53, 8, "████▎···"}, // the tick would hide it
		{80, 50, 8, "██████▍·"}, // used now, and no pass has seen it yet
		{0, 100, 1, "│"},
		{50, 50, 0, ""},
	} {
		require.Equal(t, c.want, ansi.Strip(bar(row{Size: 100, Used: c.used, HighWater: c.high}, c.width)), "%+v", c)
	}
	require.Equal(t, "   ", bar(row{}, 3), "a ring without a size")
	// Colours say how full a ring is.
	for used, style := range map[int]lipgloss.Style{9: red, 6: yellow, 1: green} {
		require.Contains(t, bar(row{Size: 10, Used: used}, 10), style.Render(strings.Repeat("█", used)))
	}
	require.NotEqual(t, red.Render("█"), "█")
}

// The screen writes to the terminal by itself: what it shows of text from outside must be clean.
func TestHostileNames(t *testing.T) {
	const evil = "\x1b]0;title\a\x1b[2J\x1b[5m\u009b31m\x9b31m\u202e\u2066\r\nx"
	colours := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	f := fixed(2, source.Exact)
	f.Rings[0].Map, f.Rings[1].Map = evil, evil+"2"
	for _, problem := range []string{evil, ""} {
		f.Problem, f.hotplug = problem, errors.New(evil)
		v := view{width: 300, height: 24, source: evil}
		screen := v.render(f)
		require.NotContains(t, screen, "\x1b[5m")
		lines := strings.Split(colours.ReplaceAllString(screen, ""), "\n")
		require.Len(t, lines, v.height)
		for _, line := range lines {
			require.Equal(t, cli.Printable(line), line)
		}
		require.Equal(t, 4, strings.Count(screen, `\u001b]0;`), screen) // title, problem, rows
	}
}
