package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// start runs the command, and returns when it has its rings.
func start(t *testing.T, args ...string) *clitest.Running {
	t.Helper()
	return clitest.Start(t, "reading the map", Command, append([]string{"--steal"}, args...)...)
}

// line is one of what is printed as JSON.
type line struct {
	Snapshot *snapshot
	Summary  *summary
}

// lines are all that was printed as JSON, of which the last one is the summary.
func lines(t *testing.T, r *clitest.Running) (snapshots []snapshot, s summary) {
	t.Helper()
	<-r.Ended
	var one line
	for text := range strings.Lines(r.Out.String()) {
		require.Nil(t, one.Summary)
		one = line{}
		require.NoError(t, json.Unmarshal([]byte(text), &one), text)
		if one.Snapshot != nil {
			snapshots = append(snapshots, *one.Snapshot)
		}
	}
	require.NotNil(t, one.Summary, r.Notes)
	return snapshots, *one.Summary
}

// summed waits for the end of a command that does well, and returns its summary.
func summed(t *testing.T, r *clitest.Running) summary {
	t.Helper()
	r.Wait(t)
	_, s := lines(t, r)
	return s
}

// run runs the command to its end, as main does.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	return clitest.Run(t, Command, args...)
}

// id is that of a map, for a command line.
var id = clitest.MapID

// sizes are those of the samples in a file, in order.
func sizes(t *testing.T, o perfdata.ReplayOptions, file string) (all []int, end error) {
	t.Helper()
	r, err := perfdata.Open(file, o)
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	end = s.Run(t.Context(), func(ev perfbuf.Event) error {
		all = append(all, len(ev.Bytes()))
		return nil
	})
	return all, end
}

// whole are those of a whole file.
func whole(t *testing.T, file string) []int {
	t.Helper()
	all, end := sizes(t, perfdata.ReplayOptions{}, file)
	require.Equal(t, io.EOF, end)
	return all
}

func TestRecord(t *testing.T) {
	e := kerneltest.Load(t)
	dir := t.TempDir()
	t.Chdir(dir)
	r := start(t, "id", id(t, e.MapFD()), "--json")
	for i := range 50 {
		e.Emit(i%2, 1, 40)
	}
	for written := int64(0); written < 50*40; { // the end is another way
		info, err := os.Stat("ringfold.data")
		require.NoError(t, err)
		written = info.Size()
	}
	r.Interrupt(t)
	s := summed(t, r)
	require.EqualValues(t, 50, s.Events)
	require.Equal(t, "ringfold.data", s.File)
	require.Zero(t, s.Lost+s.Filtered+s.TooLarge+s.Corrupt)
	require.Len(t, whole(t, "ringfold.data"), 50)
	content, err := os.ReadFile("ringfold.data")
	require.NoError(t, err)
	require.EqualValues(t, len(content), s.Bytes)
	require.True(t, bytes.Contains(content, []byte{68, 0, 0, 0, 0, 0, 8, 0}), "no PERF_RECORD_FINISHED_ROUND")

	perf := kerneltest.RequireCommand(t, "perf")
	b, err := exec.Command(perf, "script", "-f", "-i", "ringfold.data").CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, 50, strings.Count(string(b), " events: "), "%s", b)
}

// A compressed recording is smaller, and read like any other.
func TestCompress(t *testing.T) {
	e := kerneltest.Load(t)
	dir := t.TempDir()
	small, copied := filepath.Join(dir, "small.data"), filepath.Join(dir, "copied.data")
	r := start(t, "id", id(t, e.MapFD()), "--json", "-w", small, "-z", "-n", "500")
	e.Emit(0, 500, 200)
	require.EqualValues(t, 500, summed(t, r).Events)
	_, err := perfdata.Open(small, perfdata.ReplayOptions{})
	require.ErrorContains(t, err, "compressed")
	status, _, stderr := run(t, small, "-w", copied)
	require.Zero(t, status, stderr)
	require.Len(t, whole(t, copied), 500)
	require.Less(t, 2*size(t, small), size(t, copied))
}

func size(t *testing.T, file string) int64 {
	info, err := os.Stat(file)
	require.NoError(t, err)
	return info.Size()
}

// A ring buffer's events need a time, but no CPU.
func TestRingBuf(t *testing.T) {
	rings := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	file := filepath.Join(t.TempDir(), "x.data")
	ring := id(t, rings.MapFD())
	r := start(t, "id", fmt.Sprintf("%s,time=%d", ring, kerneltest.RingTimeAt), "--json", "-w", file, "-n", "3")
	rings.Emit(0, kerneltest.RingEmit{Count: 3, Size: 40})
	require.EqualValues(t, 3, summed(t, r).Events)
	require.Equal(t, []int{40, 40, 40}, whole(t, file))
}

// What does not match is left out, and what comes is counted.
func TestFilter(t *testing.T) {
	e := kerneltest.Load(t)
	file := filepath.Join(t.TempDir(), "x.data")
	r := start(t, "id", id(t, e.MapFD()), "--json", "-w", file, "--filter", "size > 50", "-n", "2")
	for _, size := range []int{40, 100, 40, 60} {
		e.Emit(0, 1, size)
	}
	s := summed(t, r)
	require.EqualValues(t, 2, s.Events)
	require.EqualValues(t, 2, s.Filtered)
	require.Equal(t, []int{100, 60}, whole(t, file))

	// Of a recording, what matches is copied.
	part := file + "2"
	status, out, _ := run(t, "file", file, "-w", part, "--filter", "size == 60")
	require.Zero(t, status)
	require.Contains(t, out, part+": 1 events in ")
	require.Contains(t, out, "1 did not match")
	require.Equal(t, []int{60}, whole(t, part))
	status, _, notes := run(t, "file", file, "-w", file)
	require.Equal(t, 1, status)
	require.Contains(t, notes, file+" is read: write to another file")
}

// Of a recording that was cut, what is there is copied.
func TestCut(t *testing.T) {
	e := kerneltest.Load(t)
	file := filepath.Join(t.TempDir(), "x.data")
	r := start(t, "id", id(t, e.MapFD()), "-w", file, "--json")
	e.Emit(0, 400, 100)
	r.Interrupt(t)
	n := summed(t, r).Events
	require.EqualValues(t, 400, n)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, info.Size()/2))
	status, out, notes := run(t, "file", file, "-w", file+"2", "--json")
	require.Equal(t, 1, status)
	require.Contains(t, notes, "it was cut")
	require.Contains(t, out, `{"summary":`)
	require.Greater(t, len(whole(t, file+"2")), 100)
}

// full is a disk with room for some writes.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

// A full disk ends a recording with its summary, as it keeps what it has.
func TestNoRoom(t *testing.T) {
	e := kerneltest.Load(t)
	file := filepath.Join(t.TempDir(), "x.data")
	r := start(t, "id", id(t, e.MapFD()), "-w", file)
	e.Emit(0, 400, 100)
	r.Interrupt(t)
	var notes bytes.Buffer
	root := cli.Root()
	root.AddCommand(Command())
	root.SetOut(&full{left: 1})
	root.SetErr(&notes)
	require.Equal(t, 1, cli.Main(root, []string{"record", file, "-w", "-"}))
	require.Regexp(t, `(?m)^-: \d+ events in .*\n.*no space left on device$`, notes.String())
}

// The type is in the file, and each map is an event of its own.
func TestEvents(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpec("../source/decode.bpf.o")
	require.NoError(t, err)
	e := kerneltest.Load(t)
	c, err := ebpf.NewCollection(spec)
	require.NoError(t, err)
	defer c.Close()
	file := filepath.Join(t.TempDir(), "x.data")
	r := start(t, "id", id(t, e.MapFD()), "id", id(t, c.Maps["decode_events"].FD())+",type=sample_t", "-w", file, "-n", "2", "--json")
	e.Emit(1, 1, 40)
	ret, err := c.Programs["output_sample"].Run(&ebpf.RunOptions{Context: [2]uint64{100, 0}})
	require.NoError(t, err)
	require.Zero(t, int32(ret))
	require.EqualValues(t, 2, summed(t, r).Events)
	events, err := perfdata.Events(file)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Equal(t, "events", events[0].Name)
	require.NotEmpty(t, events[0].BTF, "without a type, what the map's program has")
	require.Equal(t, "decode_events", events[1].Name)
	require.NotEmpty(t, events[1].BTF)
	all, _ := sizes(t, perfdata.ReplayOptions{Event: "decode_events"}, file)
	require.Equal(t, []int{100}, all)
}

// A recording has no place on a terminal, under whatever name.
func TestTerminal(t *testing.T) {
	_, tty := clitest.Terminal(t, 80)
	for _, flags := range [][]string{nil, {"--flight", "1s"}} {
		status, _, notes := run(t, append([]string{"-w", tty.Name()}, flags...)...)
		require.Equal(t, 1, status)
		require.Contains(t, notes, tty.Name()+" is a terminal: name a file")
	}
}

// What is wrong is found before a map's reader is silenced, and before a file is touched.
func TestNothingForNothing(t *testing.T) {
	e, rings := kerneltest.Load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	reader, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	defer reader.Close()
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("x.data", []byte("before"), 0o600))
	n := uint64(0)
	for args, want := range map[string]string{
		"-w none/x.data":                                    "open none/x.data: no such file",
		"-w none/x.data --max-size 1MiB":                    "open none/x.000001.data: no such file",
		"-w .":                                              ". is a directory",
		"-w x.data --flight 1s --trigger x==1":              "says where x is",
		"-w none/x.data --flight 1s":                        "open none/x.data: no such file",
		"--snapshot-dir none --flight 1s":                   "open none/ringfold.data: no such file",
		"-w x.data --btf x.data --type x":                   "x.data is read: write to another file",
		"-w x.data --type nonsense":                         "nonsense",
		"-w x.data -- /no/such/program":                     "running /no/such/program: ",
		"-w x.data id " + id(t, rings.MapFD()):              "events of a recording have a time",
		"-w x.data name none":                               "no perf event array or BPF ring buffer is named",
		"-w x.data --mode exact,":                           "invalid argument",
		"-w x.data id " + id(t, e.MapFD()):                  "is chosen twice",
		"-w x.data --mode unordered id " + id(t, e.MapFD()): "is chosen twice",
	} {
		status, _, notes := run(t, append([]string{"id", id(t, e.MapFD()), "--steal"}, strings.Fields(args)...)...)
		require.NotZero(t, status, args)
		require.Contains(t, notes, want, args)
		e.Emit(0, 1, 40)
		stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
		require.NoError(t, err)
		require.NoError(t, stream.ForEach(func(perfbuf.Event) error { return nil }))
		require.NoError(t, stream.Close())
		n++
		require.Equal(t, n, reader.Stats().Total().Samples, args)
	}
	content, err := os.ReadFile("x.data")
	require.NoError(t, err)
	require.Equal(t, "before", string(content))
	all, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestRotation(t *testing.T) {
	e := kerneltest.Load(t)
	file := filepath.Join(t.TempDir(), "x.data")
	r := start(t, "id", id(t, e.MapFD()), "-w", file, "--max-size", "1MiB", "--ring-size", "4MiB", "--max-files", "2", "--json")
	for range 40 { // 4 MiB, and time to read
		e.Emit(0, 25, 4096-8)
	}
	r.Interrupt(t)
	s := summed(t, r)
	require.EqualValues(t, 1000, s.Events+s.Lost)
	require.Greater(t, s.Files, uint64(2))
	files, err := filepath.Glob(filepath.Join(filepath.Dir(file), "x.*.data"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.NotEmpty(t, whole(t, files[1]))
	for _, read := range files {
		status, _, notes := run(t, read, "-w", file, "--max-size", "1MiB", "--max-files", "2")
		require.Equal(t, 1, status)
		require.Contains(t, notes, read+" is read: write to another file")
	}
}

// The pipe format, while a command runs.
func TestPipe(t *testing.T) {
	e := kerneltest.Load(t)
	file := filepath.Join(t.TempDir(), "x.data")
	r := start(t, "id", id(t, e.MapFD()), "-w", "-", "--", "sh", "-c", "read line; exit 3")
	r.Wait(t)
	require.NoError(t, os.WriteFile(file, []byte(r.Out.String()), 0o600))
	require.Empty(t, whole(t, file))
	require.Contains(t, r.Notes.String(), "\nsh: exit status 3\n")
}

func TestArguments(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
		"--max-age -1s":                     "must not be negative",
		"--write=":                          "--write: name a file",
		"-w - --json":                       "need a file",
		"--trigger cpu==1":                  "are for --flight",
		"--max-files 2":                     "--max-files is for",
		"--flight 1s x.data":                "--flight is for a map",
		"--flight 1s --max-size 1MiB":       "are not for --flight",
		"--flight 1s --mode exact":          "--mode and --slack are not",
		"--flight 1s --snapshot-dir . -w x": "give one of them",
		"--flight 1s --trigger cpu":         "--trigger \"cpu\": \"cpu\" should be",
		"x":                                 `"x": name a map`,
		"--flight 1s --max-files 2":         "--max-files is for --max-size, --m",
	})
	status, out, _ := run(t, "--help")
	require.Zero(t, status)
	require.Contains(t, out, "ringfold record [flags] [id N")
}
