package tail

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// replay runs the program without root, which must have that exit status.
func replay(t *testing.T, status int, args ...string) (out, notes string) {
	t.Helper()
	cmd, stderr := clitest.Command(t, args...)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	b, _ := cmd.Output()
	require.Equal(t, status, cmd.ProcessState.ExitCode(), stderr)
	return string(b), stderr.String()
}

// readable is a path in a directory that everybody may read.
func readable(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "tail")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return filepath.Join(dir, "events.data")
}

// printed is what was printed without the summary, which tells of the source.
func printed(out string) string {
	if before, _, ok := strings.Cut(out, "{\"summary\""); ok {
		return before
	}
	before, _, _ := strings.Cut(out, "\n\n")
	return before
}

// record makes a recording of what emit outputs, and returns what tail prints of it.
func record(t *testing.T, path string, emit func(), args ...string) (asText, asJSON string) {
	t.Helper()
	var f source.Flags
	cmd := &cobra.Command{Use: "record", Args: f.Args, RunE: func(cmd *cobra.Command, _ []string) error {
		set, err := f.Choose()
		if err != nil {
			return err
		}
		defer set.Close()
		in, err := set.Open(perfbuf.Options{})
		require.NoError(t, err)
		events, err := set.Events()
		if err != nil {
			return err
		}
		rec, err := perfdata.Create(path, perfdata.Options{Events: events})
		require.NoError(t, err)
		text, lines := newText(&config{}, set, cmd.OutOrStdout()), jsonLines{newClock(&config{}, set)}
		asText = string(text.header(nil))
		emit()
		require.NoError(t, set.Run(cmd.Context(), in, func(ev source.Event) error {
			asText += string(text.event(nil, ev))
			asJSON += string(lines.event(nil, ev))
			return rec.Record(ev.Event)
		}, rec.Flush))
		require.NoError(t, rec.Close())
		return os.Chmod(path, 0o644)
	}}
	f.Which(cmd.Flags())
	f.What(cmd.Flags())
	f.Types(cmd.Flags())
	var stderr bytes.Buffer
	cmd.SetErr(&stderr)
	f.RingSize = 1 << 20
	require.Zero(t, cli.Main(cmd, args), &stderr)
	return asText, asJSON
}

// A recording prints as the map has, by the type that is in it, without root.
func TestFile(t *testing.T) {
	s := onLibbpf(t)
	path := readable(t)
	asText, asJSON := record(t, path, func() {
		s.output(s.size)
		s.output(12)
		s.output(s.size)
	}, "id", s.id, "--steal", "-n", "3", "--type", "sample_t")
	require.Contains(t, asText, sampleText)
	for _, how := range []string{"tail ", "tail file ", "replay --speed max ", "replay --speed 1000x "} {
		out, notes := replay(t, 0, strings.Fields(how+path+" --type sample_t")...)
		require.Equal(t, asText, printed(out)+"\n")
		require.Contains(t, notes, "reading the recording "+path+" (event decode_events)\n")
		out, _ = replay(t, 0, strings.Fields(how+path+" --type sample_t -o json")...)
		require.Equal(t, asJSON, printed(out))
	}

	out, _ := replay(t, 0, "tail", path, "-n", "1")
	require.Contains(t, out, "\n1 event and 0 lost of "+path+" (event decode_events) in 0.0 s, in order of time.\n")
	require.Regexp(t, `\n  0 +1 +0 +0 +\d+ +-\n`, out, "there are no rings to be full")
	require.NotContains(t, out, "Not printed")
	out, _ = replay(t, 0, "tail", path, "-q", "--slack", "1s")
	require.Contains(t, out, "\n3 events and 0 lost of ")
	out, _ = replay(t, 0, "tail", path, "-o", "compact", "--since", "1ns", "--type", "sample", "--fields", "at.x,comm", "--filter", `comm == 'a "b"`+"\n'")
	require.Equal(t, "0.000000000 0 at.x=-1 comm=\"a \\\"b\\\"\\n\"\n# 1 event, 0 lost, 0 late, 0.0 s, exact\n", out)

	perf := kerneltest.RequireCommand(t, "perf")
	b, err := exec.Command(perf, "script", "-f", "-i", path).CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(b), " decode_events: "), "%s", b)
}

// Each map is an event of its own.
func TestFileOfSeveral(t *testing.T) {
	e, rings := load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	path := readable(t)
	n := 3 * len(e.cpus)
	record(t, path, func() { e.emit(3, 40) }, "id", e.id, "id", ringOf(t, rings.MapFD(), ""), "--steal", "-n", strconv.Itoa(n))
	out, _ := replay(t, 0, "tail", path, "--json")
	_, sum := parseJSON(t, out)
	require.Len(t, sum.Maps, 2)
	out, _ = replay(t, 0, "replay", path, "--event", "events", "--json")
	objects, sum := parseJSON(t, out)
	require.Len(t, objects, n)
	require.Equal(t, []mapOf{{0, "events", "recording"}}, sum.Maps)
	out, _ = replay(t, 0, "tail", path, "--event", "events", "--json", "--cpus", "1")
	objects, _ = parseJSON(t, out)
	require.Len(t, objects, 3)
}

// What is wrong is said in a line, after all that can be read.
func TestBadFile(t *testing.T) {
	e := load(t)
	path := readable(t)
	record(t, path, func() { e.Emit(0, 10, 40) }, "id", e.id, "--steal", "-n", "10")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	fails := func(want string, args ...string) string {
		t.Helper()
		out, notes := replay(t, 1, append([]string{"tail"}, args...)...)
		lines := strings.Split(strings.TrimSpace(notes), "\n")
		require.Contains(t, lines[len(lines)-1], want)
		return out
	}
	fails(`has no struct or union "event"; it has `, path, "--type", "event")
	fails("has no BTF", "../../../../perfbuf/perfdata/testdata/exec.perf.data", "--type", "event")
	fails("no such file or directory", path+".none/x")
	fails("is not a regular file", "/dev/null")
	records := binary.LittleEndian.Uint64(whole[40:]) + binary.LittleEndian.Uint64(whole[48:]) // end there
	require.NoError(t, os.WriteFile(path, whole[:records-100], 0o644))
	require.Regexp(t, `\n[1-9] events? and 0 lost`, fails("it was cut", path))
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("text ", 100)), 0o644))
	fails("not a perf.data file", path)
	cmd, stderr := clitest.Command(t, "tail", path+".copy", "--json")
	require.NoError(t, os.WriteFile(path+".copy", whole, 0o644))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	cmd.Stdout = full
	require.Error(t, cmd.Run())
	require.Contains(t, stderr.String(), "no space left on device")
}
