package tail

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// tool is somebody else's program.
func tool(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	kerneltest.RequireRoot(t)
	return exec.Command(kerneltest.RequireCommand(t, name), args...)
}

// Of tools that were never made for it, events are read. They get none any more.
func TestOthersTools(t *testing.T) {
	t.Run("runqslower", func(t *testing.T) { takeOver(t, "runqslower", "1") }) // us: else nothing comes on a quiet machine
	t.Run("execsnoop", func(t *testing.T) { takeOver(t, "execsnoop", "") })
	t.Run("opensnoop", func(t *testing.T) { takeOver(t, "opensnoop", "") })
}

func takeOver(t *testing.T, name, arg string) {
	// Some find tracepoints by their files, which need not be mounted, and so are, for the tool alone. It takes the shell's place.
	cmd := tool(t, "unshare", "--mount", "sh", "-c", "mount -t tracefs tracefs /sys/kernel/tracing; exec "+tool(t, name).Path+" "+arg)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	defer func() { cmd.Process.Kill(); <-ended }()

	m := heldBy(t, cmd.Process.Pid, ended, &stderr)
	id := strconv.Itoa(int(m.ID))
	require.NotEmpty(t, m.Programs)
	fails(t, "seems to be read by "+name+" (pid "+strconv.Itoa(cmd.Process.Pid)+")", "id", id)

	for _, replaced := range []bool{true, false} { // for it is gone then
		r := start(t, "id", id, "--steal", "--json", "-n", "10")
		done := make(chan struct{})
		go busy(done)
		events, s := parseJSON(t, r.Wait(t))
		done <- struct{}{}
		require.EqualValues(t, 10, s.Events)
		require.Equal(t, replaced, s.Replaced > 0)
		for i := range events[1:] {
			require.LessOrEqual(t, events[i].Timestamp, events[i+1].Timestamp)
		}
	}
}

// heldBy waits until a tool has rings, and returns its map.
func heldBy(t *testing.T, pid int, ended <-chan struct{}, stderr *bytes.Buffer) bpfmaps.Map {
	t.Helper()
	for {
		select {
		case <-ended:
			t.Fatalf("the tool cannot be used here: %s", stderr)
		default:
		}
		maps, err := bpfmaps.List("")
		require.NoError(t, err)
		for _, m := range maps {
			for _, p := range m.Processes {
				// When it has all rings, it goes on to read them, or to attach its programs.
				if p.PID == pid && p.Rings >= int(m.MaxEntries) {
					return m
				}
			}
		}
	}
}

// busy starts processes until it is told to stop: they are executed, open files, and are waited for.
func busy(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
			exec.Command("true").Run()
		}
	}
}

// What bpftool prints of a map, this program prints too, under the same names, but for the lost records' id.
func TestBpftool(t *testing.T) {
	e := load(t)
	cpu := e.cpus[0]
	cmd := tool(t, "bpftool", "map", "event_pipe", "id", e.id, "-j")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	read := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(out)
		read <- b
	}()
	// It catches signals before it reads. When there is room again, it has read: the report of the first loss too, in the end.
	for range 4 {
		for e.LastError(cpu) != syscall.ENOSPC {
			e.Emit(cpu, 1, 4096)
		}
		for e.LastError(cpu) != nil { // of the same size: a smaller one might fit anyway
			e.Emit(cpu, 1, 4096)
		}
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var array []map[string]any
	require.NoError(t, json.Unmarshal(<-read, &array))
	theirs := keys(array)
	require.NoError(t, cmd.Wait())

	r := start(t, "id", e.id, "--steal", "--json", "--ring-size", "4096")
	for _, failed := e.Counts(cpu); ; {
		e.Emit(cpu, 512, 512)
		if _, now := e.Counts(cpu); now > failed {
			break
		}
	}
	var lines []map[string]any
	for line := range strings.Lines(r.Interrupt(t)) {
		var o map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &o), line)
		lines = append(lines, o)
	}
	ours := keys(lines)
	for _, record := range []int{recordSample, recordLost} {
		require.NotNil(t, theirs[record], record)
		require.NotNil(t, ours[record], record)
		for key := range theirs[record] {
			require.Contains(t, ours[record], key)
			require.IsType(t, theirs[record][key], ours[record][key])
		}
	}
	require.IsType(t, theirs[recordSample]["data"].([]any)[0], ours[recordSample]["data"].([]any)[0])
	require.Contains(t, theirs[recordLost]["lost"], "count")
	require.Contains(t, ours[recordLost]["lost"], "count")
}

// keys returns the last object of each type.
func keys(objects []map[string]any) map[int]map[string]any {
	last := map[int]map[string]any{}
	for _, o := range objects {
		if record, ok := o["type"].(float64); ok {
			last[int(record)] = o
		}
	}
	return last
}
