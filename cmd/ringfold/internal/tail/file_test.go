package tail

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// replay runs the program without root.
func replay(t *testing.T, args ...string) (out, notes string, err error) {
	t.Helper()
	cmd, stderr := program(args...)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	b, err := cmd.Output()
	return string(b), stderr.String(), err
}

// readable is a path in a directory that everybody may read.
func readable(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "eventpipe")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return filepath.Join(dir, "events.data")
}

// printed is what was printed without the summary, which tells of the source.
func printed(out string) string {
	if before, _, ok := strings.Cut(out, ",{\"summary\""); ok {
		return before
	}
	before, _, _ := strings.Cut(out, "\n\n")
	return before
}

// A recording prints as the map has, by the type that is in it, without root.
func TestRecordAndFile(t *testing.T) {
	s := onLibbpf(t)
	path := readable(t)
	live := map[string]string{}
	for _, form := range []string{"", "-json"} {
		args := strings.Fields("-id " + s.id + " -steal -n 3 -type sample_t -record " + path + " " + form)
		r := start(t, args...)
		s.output(s.size)
		s.output(12)
		s.output(s.size)
		live[form] = printed(r.wait())
		require.NoError(t, os.Chmod(path, 0o644))
		out, notes, err := replay(t, strings.Fields("-type sample_t -file "+path+" "+form)...)
		require.NoError(t, err, notes)
		require.Equal(t, live[form], printed(out))
		require.Contains(t, notes, "reading the recording "+path+" (event decode_events)\n")
	}
	require.Contains(t, live[""], sampleText)

	out, notes, err := replay(t, "-file", path, "-n", "1")
	require.NoError(t, err, notes)
	require.Contains(t, out, "\n1 event and 0 lost of "+path+" (event decode_events) in 0.0 s, in the order of time.\n")
	require.NotContains(t, out, "Not printed")
	out, _, err = replay(t, "-file", path, "-stats", "-slack", "1s")
	require.NoError(t, err)
	require.Contains(t, out, "\n3 events and 0 lost of ")

	// A copy has the same, and so has what perf reads.
	again := readable(t)
	cmd, _ := program("-file", path, "-type", "sample", "-btf", "decode.bpf.o", "-record", again, "-json")
	b, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, live["-json"], printed(string(b)))
	cmd, _ = program("-file", again, "-type", "sample", "-json")
	b, err = cmd.Output()
	require.NoError(t, err)
	require.Equal(t, live["-json"], printed(string(b)))
	perf := kerneltest.RequireCommand(t, "perf")
	b, err = exec.Command(perf, "script", "-f", "-i", again).CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(b), " decode_events: "), "%s", b)
}

// Each map is an event of its own.
func TestRecordSeveral(t *testing.T) {
	e, rings := load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	path := readable(t)
	r := start(t, "-id", e.id, "-id", ringOf(t, rings.MapFD(), ""), "-steal", "-record", path, "-stats")
	n := e.emit(3, 40)
	r.interrupt()
	require.NoError(t, os.Chmod(path, 0o644))
	_, notes, err := replay(t, "-file", path)
	require.Equal(t, 1, failure(t, err))
	require.Contains(t, notes, "has several events: name one by -event: events, ")
	out, notes, err := replay(t, "-file", path, "-event", "events", "-json")
	require.NoError(t, err, notes)
	objects, sum := parseJSON(t, out)
	require.Len(t, objects, n)
	require.Equal(t, []mapOf{{0, "events", "recording"}}, sum.Maps)
	_, notes, err = replay(t, "-file", path, "-event", "other")
	require.Equal(t, 1, failure(t, err))
	require.Contains(t, notes, "-event other: "+path+" has none of this name, but events, ")

	cmd, stderr := program("-steal", "-id", mapID(t, rings.MapFD())+",time=8", "-record", path)
	require.Equal(t, 1, failure(t, cmd.Run()))
	require.Contains(t, stderr.String(), "events of a recording have a time and a CPU")
}

// What is wrong is said in a line, after all that can be read.
func TestBadFile(t *testing.T) {
	e := load(t)
	path := readable(t)
	r := start(t, "-id", e.id, "-steal", "-record", path, "-n", "10")
	e.Emit(0, 10, 40)
	r.wait()
	require.NoError(t, os.Chmod(path, 0o644))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	fails := func(want string, args ...string) string {
		t.Helper()
		out, notes, err := replay(t, args...)
		require.Equal(t, 1, failure(t, err))
		lines := strings.Split(strings.TrimSpace(notes), "\n")
		require.Contains(t, lines[len(lines)-1], want)
		return out
	}
	fails("has no BTF", "-file", path, "-type", "event")
	fails("no such file or directory", "-file", path+".none")
	fails("is no file", "-file", "/dev/null")
	fails("would overwrite the recording that -file reads", "-file", path, "-record", path)
	fails("permission denied", "-file", path, "-record", path+".new")
	require.NoError(t, os.WriteFile(path, whole[:600], 0o644))
	require.Regexp(t, `\n[1-9] events? and 0 lost`, fails("it was cut", "-file", path))
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("text ", 100)), 0o644))
	fails("not a perf.data file", "-file", path)

	// Where a recording cannot be written, nobody is silenced.
	cmd, stderr := program("-id", e.id, "-steal", "-record", filepath.Join(path, "below"))
	require.Equal(t, 1, failure(t, cmd.Run()))
	require.Contains(t, stderr.String(), "not a directory")
	require.NotContains(t, stderr.String(), "reading the map")
	// A full disk ends it with an error.
	cmd, stderr = program("-file", path+".copy", "-record", "/dev/full")
	require.NoError(t, os.WriteFile(path+".copy", whole, 0o644))
	require.Equal(t, 1, failure(t, cmd.Run()))
	require.Contains(t, stderr.String(), "no space left on device")

	for want, args := range map[string][]string{
		"are for maps":             {"-file", "f", "-id", "1"},
		"-wall is for maps":        {"-file", "f", "-wall"},
		"which event of a -file":   {"-event", "e"},
		"take the name of a file":  {"-file", ""},
		"that -record could write": {"-list", "-record", "f"},
	} {
		cmd, stderr := program(args...)
		require.Equal(t, 2, failure(t, cmd.Run()))
		require.Contains(t, stderr.String(), want)
	}
}
