package list

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	leak.Main(m)
}

func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	return clitest.Run(t, Command, args...)
}

func TestList(t *testing.T) {
	e := kerneltest.Load(t)
	id := clitest.MapID(t, e.MapFD())

	line := regexp.MustCompile(`(?m)^` + id + ` +perf_event_array +events +\d+ +(run|bare) \(id \d+\), (run|bare) \(id \d+\) +\S+ \(pid ` + strconv.Itoa(os.Getpid()) + `\) +-$`)
	var status int
	var out, notes string
	for !line.MatchString(out) { // others' tests list maps too, and hold each of them for a moment
		status, out, notes = run(t)
		require.Zero(t, status, notes)
		require.Regexp(t, `^ID +TYPE +NAME +ENTRIES +PROGRAMS +PROCESSES +PINS\n`, out)
	}

	status, out, notes = run(t, "-o", "compact", "--process", strconv.Itoa(os.Getpid()))
	require.Zero(t, status, notes)
	require.Contains(t, out, id+" perf_event_array events\n")

	// An object per line.
	status, out, notes = run(t, "-o", "json")
	require.Zero(t, status, notes)
	found := false
	for line := range strings.Lines(out) {
		var m struct {
			ID     int
			Name   string
			Type   string
			Pinned []string
			PIDs   []struct{ PID, Rings int }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &m), line)
		if strconv.Itoa(m.ID) == id {
			found = true
			require.Equal(t, "perf_event_array", m.Type)
			require.Equal(t, "events", m.Name)
			require.True(t, slices.ContainsFunc(m.PIDs, func(p struct{ PID, Rings int }) bool { return p.PID == os.Getpid() }))
			require.NotNil(t, m.Pinned)
		}
	}
	require.True(t, found)

	status, _, notes = run(t, "--process", "no such")
	require.Equal(t, 1, status)
	require.Contains(t, notes, `no process "no such" holds a perf event array`)
	status, _, notes = run(t, "id", "3")
	require.Equal(t, 2, status)
	require.Equal(t, 1, strings.Count(notes, "\n"))
}

func TestEmpty(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, list(&out, nil, cli.JSON))
	require.Empty(t, out.String())
	require.NoError(t, list(&out, nil, cli.Text))
	require.Contains(t, out.String(), "There is no perf event array or BPF ring buffer")
	out.Reset()
	require.NoError(t, list(&out, []bpfmaps.Map{{ID: 3, Type: "ringbuf", Overwrites: true, Unseen: "there is no /proc here"}}, cli.Text))
	require.Contains(t, out.String(), "There may be other processes: there is no /proc here.\n")
	require.Contains(t, out.String(), "ringbuf (overwrite)")
}
