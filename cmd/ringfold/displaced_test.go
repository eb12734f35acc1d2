package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/metrics"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/record"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/stat"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/top"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/trace"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// reading starts a command on the map of a program, and returns when it has the map and an event of it.
func reading(t *testing.T, e *kerneltest.Emitter, command func() *cobra.Command, args ...string) *clitest.Running {
	args = append([]string{"id", clitest.MapID(t, e.MapFD()), "--steal"}, args...)
	r := clitest.Start(t, "", command, args...)
	for e.Emit(0, 1, 24); e.LastError(0) != nil; e.Emit(0, 1, 24) {
		require.False(t, ended(r), r.Notes)
	}
	return r
}

func ended(r *clitest.Running) bool {
	select {
	case <-r.Ended:
		return true
	default:
		return false
	}
}

// steal takes the map, for a moment.
func steal(t *testing.T, e *kerneltest.Emitter) {
	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

const displaced = `another reader has taken the map \S+ \(id \d+\) \(\d+ CPUs\): events after \S+ \d\d:\d\d:\d\d\.\d{3}(, \d+\.\d{3} s after the first event)? may be missing\. With --steal, this command takes it back`

// When another reader takes the map, each command ends, says since when events may be missing, shows what it has, and fails.
func TestDisplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	for name, c := range map[string]struct {
		command func() *cobra.Command
		args    []string
		summary string
	}{
		"tail":          {tail.Command, nil, `\n1 event and 0 lost of(.*\n)*DISPLACED: another reader has taken the map \(\d+ CPUs?\): events after \S+ may be missing\.\n$`},
		"tail --json":   {tail.Command, []string{"--json"}, `"replaced_entries":0,"displaced":[1-9]\d*,"owned_until_ns":\d+,`},
		"record":        {record.Command, []string{"-w", file}, `1 events in .* 0 lost`},
		"record --json": {record.Command, []string{"-w", file, "--json"}, `"events":1,.*"displaced":[1-9]\d*,"owned_until_ns":\d+,`},
		// The event may come before the recorder counts it as one of the time that it has.
		"record --flight": {record.Command, []string{"-w", file, "--flight", "1h", "--json"},
			`"trigger":"end","events":[01],.*\n.*"snapshots":1,.*"displaced":[1-9]\d*,"owned_until_ns":\d+,`},
		"stat":    {stat.Command, nil, `all +1 `},
		"metrics": {metrics.Command, []string{"--listen", "127.0.0.1:0"}, `^1 events in`},
		"trace":   {trace.Command, []string{"-w", file}, `1 events; 0 events lost`},
		"top":     {top.Command, []string{"--json"}, `"summary".*"displaced":[1-9]`},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := reading(t, e, c.command, c.args...)
			steal(t, e)
			require.Equal(t, 1, r.Status(), r.Notes)
			require.Regexp(t, c.summary, r.Out)
			require.Regexp(t, `(?m)^ringfold `+c.command().Name()+`: `+displaced+`$`, r.Notes)
		})
	}
}

// A command that is run meanwhile is not ended for that.
func TestDisplacedWithACommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	for name, c := range map[string]struct {
		command func() *cobra.Command
		args    []string
	}{
		"tail":            {tail.Command, nil},
		"record --flight": {record.Command, []string{"-w", file, "--flight", "1h"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			pipe := filepath.Join(t.TempDir(), "pipe")
			require.NoError(t, unix.Mkfifo(pipe, 0o600))
			r := reading(t, e, c.command, append(c.args, "--", "cat", pipe)...)
			steal(t, e)
			r.Notes.Wait(t, displaced+`. The command goes on`)
			f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // once cat has opened it
			require.NoError(t, err)
			require.False(t, ended(r))
			require.NoError(t, f.Close())
			require.Equal(t, 1, r.Status())
			require.Regexp(t, `(?m)^ringfold `+c.command().Name()+`: `+displaced+`$`, r.Notes)
		})
	}
}
