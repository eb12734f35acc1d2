//go:build linux && cgo

package main

import (
	"flag"
	"io"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func short(t *testing.T, change func(*config)) *result {
	t.Helper()
	kerneltest.Require(t)
	c := defaults()
	c.quiet = true
	c.load.Hogs, c.memory = 0, -1 // other tests run at the same time, more and less of them
	c.duration = 300 * time.Millisecond
	change(&c)
	require.NoError(t, c.check())
	res, err := soak(t.Context(), c)
	require.NoError(t, err)
	t.Logf("%+v", *res)
	require.Empty(t, res.Violations)
	require.True(t, res.Conserved)
	return res
}

// until soaks for longer and longer, until a result is enough.
func until(t *testing.T, duration time.Duration, change func(*config), enough func(*result) bool) *result {
	t.Helper()
	for ; ; duration *= 2 {
		if res := short(t, func(c *config) { c.duration = duration; change(c) }); enough(res) {
			return res
		}
	}
}

// One reader for all of the time: no output is refused for want of a ring.
func TestSoakModes(t *testing.T) {
	for _, mode := range modeNames {
		t.Run(mode, func(t *testing.T) {
			proven, duration := mode == "exact" || mode == "sources", 300*time.Millisecond
			if proven {
				duration = time.Second
			}
			res := until(t, duration, func(c *config) {
				if c.mode = mode; proven {
					c.spawn = 4 * spawnRate
				}
			}, func(res *result) bool {
				if !proven {
					return res.Delivered > 0
				}
				for _, source := range []string{"syscall", "switch", "wakeup", "softirq", "hrtimer"} {
					if res.Sources[source] == 0 {
						return false
					}
				}
				for _, m := range res.Maps {
					if m.Delivered == 0 {
						return false
					}
				}
				return res.Barriers > 0 && res.Children > 0
			})
			require.EqualValues(t, 1, res.Generations)
			require.Zero(t, res.Refused["enoent"])
			require.Zero(t, res.Dropped)
			require.Equal(t, proven, res.Provider != "")
			require.Equal(t, mode == "sources", res.Maps != nil)
			for name, m := range res.Maps {
				require.Zero(t, m.Late, name)
			}
			if proven {
				require.NotContains(t, []string{"", "0s"}, res.Interval)
			}
		})
	}
}

// All there is, until everything that is done at random has been done.
func TestSoakAll(t *testing.T) {
	done := map[string]uint64{"pauses": 0, "shutdowns": 0, "closes": 0, "reopens": 0, "markers": 0, "checks": 0}
	missing := func() bool {
		for _, n := range done {
			if n == 0 {
				return true
			}
		}
		return false
	}
	for missing() {
		res := short(t, func(c *config) {
			f := flag.NewFlagSet("soak", flag.PanicOnError)
			c.flags(f)
			require.NoError(t, f.Parse([]string{"-mode", "all", "-duration", "2s", "-life", "60ms"}))
			c.fill(f)
		})
		require.Len(t, res.Modes, len(modeNames))
		for _, m := range res.Modes {
			require.NotZero(t, m.Generations, m.Mode)
			done["shutdowns"] += m.Shutdowns
			done["closes"] += m.Closes
			done["reopens"] += m.Reopens
		}
		done["pauses"] += res.Pauses
		done["markers"] += res.Markers
		done["checks"] += res.Checked
	}
}

// Sources come and go every few ms, some closed and opened anew.
func TestSoakChanges(t *testing.T) {
	until(t, time.Second, func(c *config) { c.mode, c.changes, c.flushes = "sources", true, true }, func(res *result) bool {
		for _, m := range res.Maps {
			if m.Delivered == 0 {
				return false
			}
		}
		return res.Changes > 50 && res.Checked > 0 && res.Late > 0
	})
}

func TestSoakSmallRings(t *testing.T) {
	until(t, 1200*time.Millisecond, func(c *config) { c.ringBytes, c.spill = 8192, 64<<10 }, func(res *result) bool {
		return res.Lost > 0 && res.Gaps > 0 && res.Spilled > 0
	})
}

func TestSoakLittleMemory(t *testing.T) {
	res := short(t, func(c *config) {
		c.mode = "records"
		c.memory = 16 << 20
	})
	require.EqualValues(t, 16<<10, res.Resources.LimitKiB)
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args           []string
		pauses, reopen bool
		spawn          int
	}{
		{nil, false, false, spawnRate},
		{[]string{"-mode", "slack"}, false, false, 0},
		{[]string{"-mode", "fold", "-pauses"}, true, false, 0},
		{[]string{"-mode", "all"}, true, true, spawnRate},
		{[]string{"-mode", "sources"}, true, false, spawnRate},
		{[]string{"-mode", "all", "-pauses=false"}, false, true, spawnRate},
		{[]string{"-mode", "all", "-spawn", "0"}, true, true, 0},
		{[]string{"-bursts=false"}, false, false, 0},
		{[]string{"-bursts=false", "-spawn", "7"}, false, false, 7},
	} {
		got := defaults()
		f := flag.NewFlagSet("soak", flag.PanicOnError)
		got.flags(f)
		require.NoError(t, f.Parse(c.args))
		got.fill(f)
		require.NoError(t, got.check())
		require.Equal(t, c.pauses, got.pauses, c.args)
		require.Equal(t, c.reopen, got.reopen, c.args)
		require.Equal(t, c.spawn, got.spawn, c.args)
	}
	f, memory := flag.NewFlagSet("soak", flag.ContinueOnError), defaults()
	f.SetOutput(io.Discard)
	memory.flags(f)
	require.NoError(t, f.Parse([]string{"-memory", "64MiB"}))
	require.Equal(t, 64<<20, memory.memory)
	for _, text := range []string{"", "MiB", "-1", "1TB"} {
		require.Error(t, f.Parse([]string{"-memory", text}), text)
	}
	var b barriers
	require.NoError(t, b.Set("bind-mount,membarrier"))
	require.EqualValues(t, perfbuf.BindMount|perfbuf.Membarrier, b)
	require.ErrorContains(t, b.Set("bind-moun"), "bind-mount")
	c := defaults()
	c.mode = "fast"
	require.ErrorContains(t, c.check(), "-mode fast: fold, ")
}
