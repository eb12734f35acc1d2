package trace

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// A recording makes the trace that was made when it was recorded, without root.
func TestFile(t *testing.T) {
	kerneltest.Require(t)
	dir := t.TempDir()
	live, path := filepath.Join(dir, "trace.json"), filepath.Join(dir, "events.data")
	status, out, notes := run(t, "-w", live, "--record", path, "--json", "--", "sh", "-c", "/bin/true; /bin/true")
	require.Zero(t, status, notes)
	want, got := summaryOf(t, out), summary{}
	require.Positive(t, want.Execs)

	convert := func(args ...string) (string, string, error) {
		f, err := os.Open(path) // the directory is root's
		require.NoError(t, err)
		defer f.Close()
		cmd := program(t, append([]string{"/proc/self/fd/3"}, args...)...)
		cmd.ExtraFiles = []*os.File{f}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		var out, messages bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &messages
		err = cmd.Run()
		return out.String(), messages.String(), err
	}
	require.NoError(t, os.Chmod(path, 0o644))
	text, messages, err := convert("-w", "-")
	require.NoError(t, err, messages)
	trace := read(t, bytes.NewReader([]byte(text)))
	other, err := json.Marshal(trace.other["summary"])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(other, &got))
	require.InDelta(t, want.Seconds, got.Seconds, want.Seconds)
	require.Positive(t, got.Slices)
	want.File, want.Seconds, want.HighWater, want.CPUs, want.Command, got.File, got.Seconds, got.CPUs = "", 0, 0, 0, nil, "", 0, 0
	require.Equal(t, want, got)
	content, err := os.ReadFile(live)
	require.NoError(t, err)
	first := read(t, bytes.NewReader(content))
	for name, track := range trace.tracks {
		require.Len(t, track.slices, len(first.tracks[name].slices))
		for i, s := range track.slices {
			require.Equal(t, first.tracks[name].slices[i].args, s.args)
		}
	}

	// What was cut is shown as far as it goes.
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o644))
	text, messages, err = convert("-w", "-")
	require.Error(t, err)
	require.Contains(t, messages, "it was cut")
	require.NotEmpty(t, read(t, bytes.NewReader([]byte(text))).tracks)
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("text "), 50), 0o644))
	text, messages, err = convert("-w", "-")
	require.Error(t, err)
	require.Empty(t, text)
	require.Contains(t, messages, "not a perf.data file")
}

// Events of others are instants with their fields, or with their bytes.
func TestOthers(t *testing.T) {
	kerneltest.Require(t)
	spec, err := ebpf.LoadCollectionSpec("../source/decode.bpf.o")
	require.NoError(t, err)
	c, err := ebpf.NewCollection(spec)
	require.NoError(t, err)
	defer c.Close()
	id := clitest.MapID(t, c.Maps["decode_events"].FD())
	file := filepath.Join(t.TempDir(), "x.data")
	for _, typ := range [][]string{{"--type", "sample_t"}, nil} {
		args := append([]string{"id", id, "--steal", "-n", "1", "-w", file, "--json", "--timeout", "0"}, typ...)
		r := clitest.Start(t, "reading the map decode_events", Command, args...)
		ret, err := c.Programs["output_sample"].Run(&ebpf.RunOptions{Context: [2]uint64{100, 0}})
		require.NoError(t, err)
		require.Zero(t, int32(ret))
		sum := summaryOf(t, r.Wait(t))
		require.EqualValues(t, 1, sum.Events)
		require.Less(t, sum.Seconds, 3600.)
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var found []readInstant
		for _, track := range read(t, bytes.NewReader(content)).tracks {
			found = append(found, track.instants...)
		}
		require.Len(t, found, 1)
		require.Equal(t, "decode_events", found[0].what)
		if typ != nil {
			require.Equal(t, "a \"b\"\n", found[0].args["comm"])
			require.Equal(t, map[string]any{"x": -1., "y": 2.}, found[0].args["at"])
		} else {
			require.EqualValues(t, 100, found[0].args["size"])
			require.Equal(t, "0000000000000080", found[0].args["bytes"].(string)[:16])
		}
	}
}

// Several recordings, and all events of one, are one timeline.
func TestSeveralRecordings(t *testing.T) {
	data := "../../../../perfbuf/perfdata/testdata/"
	count := func(files ...string) (instants, cpus int) {
		status, out, notes := run(t, append(files, "-w", "-")...)
		require.Zero(t, status, notes)
		got := read(t, strings.NewReader(out))
		for _, track := range got.tracks {
			instants += len(track.instants)
		}
		return instants, len(got.tracks)
	}
	execs, n := count(data + "exec.perf.data")
	lives, m := count(data + "sources.perf.data")
	require.Positive(t, execs)
	require.Positive(t, lives)
	all, cpus := count(data+"exec.perf.data", data+"sources.perf.data")
	require.Equal(t, execs+lives, all)
	require.Equal(t, max(n, m), cpus)
}
