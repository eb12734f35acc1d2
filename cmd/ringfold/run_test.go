package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/otlp/otlptest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/exec.bpf.o
var object []byte

// The test binary is the tool too. What would go on, it ends as Ctrl-C does; a moment later most have begun, and those that have not
// must do well, too.
func TestMain(m *testing.M) {
	if os.Getenv("RINGFOLD_TEST_PROGRAM") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
		os.Exit(m.Run())
	}
	root := root()
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		// The others end by themselves: with the command behind --, a recording, or when there is something to show.
		if os.Getenv("RINGFOLD_TEST_PROGRAM") == "ended" && cmd.ArgsLenAtDash() < 0 && !slices.Contains([]string{"doctor", "list", "replay", "trace"}, cmd.Name()) {
			time.AfterFunc(300*time.Millisecond, func() { syscall.Kill(os.Getpid(), syscall.SIGINT) })
		}
	}
	os.Exit(cli.Main(root, os.Args[1:]))
}

// Every command line in documents, and in the help of commands, does well when it is run: on maps of a program of ours.
func TestRunDocuments(t *testing.T) {
	kerneltest.RequireRoot(t)
	kerneltest.RequireCommand(t, "jq")
	w := newWorld(t)
	w.run(t, "ringfold record name events --type event -w events.data -n 3 -- sh -c 'while :; do /bin/true; done'")
	recording := w.read(t, "events.data")
	w.write(t, "events.000001.data", recording)
	w.write(t, "events.000002.data", recording)
	ran := map[string]bool{}
	for _, page := range append(documents(t), help()...) {
		for _, line := range commandLine.FindAllString(page.text, -1) {
			if line = strings.TrimPrefix(strings.TrimSpace(line), "$ "); !ran[line] {
				ran[line] = true
				w.write(t, "events.data", recording) // the lines before may have written another
				t.Run(page.name, func(t *testing.T) { w.run(t, line) })
			}
		}
	}
	require.Greater(t, len(ran), 60)
}

// world is what command lines find: a directory, programs, maps, a NATS server and a collector.
type world struct {
	dir     string
	env     []string
	replace *strings.Replacer
}

func newWorld(t *testing.T) *world {
	nats, err := broker.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(nats.Shutdown)

	collector, err := otlptest.Start("127.0.0.1:0", nil)
	require.NoError(t, err)
	t.Cleanup(collector.Stop)

	free, held := load(t), load(t)
	events, rb := id(t, free.Maps["events"]), id(t, free.Maps["rb"])
	free.Close()                                // else we might be its reader
	require.NoError(t, held.Maps["rb"].Close()) // so the other map is meant
	comm := fmt.Sprint("docs", os.Getpid())     // other tests have programs, and maps, of the names in documents
	require.NoError(t, os.WriteFile("/proc/self/comm", []byte(comm), 0))
	w := &world{dir: t.TempDir(), replace: strings.NewReplacer(
		"name events", events, "id 12", events, "id 7", events, "name rb", rb, "id 15", rb,
		"--process execsnoop", "--process "+comm, "--process runqslower", "--process "+comm, "--process exec ", "--process "+comm+" ",
		"ringfold stat  ", "ringfold stat "+events,
		"ringfold metrics", "ringfold metrics --listen 127.0.0.1:0", "--listen :9435", "",
		"record -w nats://broker:4222/EVENTS", "record -w '"+nats.URL()+"/EVENTS?spool=spool.db'", "nats://broker:4222", nats.URL(), "otlp://collector:4317", collector.URL(), " /tmp/", " ", " /var/", " var/",
	)}
	w.write(t, "event.o", object)
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "var/tmp"), 0o755))
	w.program(t, "ringfold", "exec /proc/"+fmt.Sprint(os.Getpid())+`/exe "$@"`)
	w.program(t, "sudo", `exec "$@"`)
	w.program(t, "make", "/bin/true; /bin/true")
	w.env = append(os.Environ(), "PATH="+w.dir+"/bin:"+os.Getenv("PATH"), "NATS_URL="+nats.URL(), "RINGFOLD_TEST_PROGRAM=ended")
	w.start(t, "while :; do /bin/true; sleep 0.01; done")
	w.start(t, "RINGFOLD_TEST_PROGRAM=endless exec ringfold record -w 'nats://broker:4222/EVENTS?host=other&spool=other.db'")
	for w.bash("ringfold tail 'nats://broker:4222/EVENTS?since=all&once=true'").Run() != nil { // until it has made the stream
	}
	return w
}

// load loads the programs, and attaches them until the test ends.
func load(t *testing.T) *ebpf.Collection {
	require.NoError(t, rlimit.RemoveMemlock())
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	require.NoError(t, err)
	loaded, err := ebpf.NewCollection(spec)
	require.NoError(t, err)
	t.Cleanup(loaded.Close) // or the next test holds these maps too, until they are collected
	attached, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_exec", Program: loaded.Programs["executed"]})
	require.NoError(t, err)
	t.Cleanup(func() { attached.Close() })
	return loaded
}

func id(t *testing.T, m *ebpf.Map) string {
	info, err := m.Info()
	require.NoError(t, err)
	id, ok := info.ID()
	require.True(t, ok)
	return fmt.Sprint("id ", id)
}

func (w *world) write(t *testing.T, name string, content []byte) {
	path := filepath.Join(w.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, content, 0o755))
}

func (w *world) program(t *testing.T, name, script string) {
	w.write(t, "bin/"+name, []byte("#!/bin/sh\n"+script+"\n"))
}

func (w *world) read(t *testing.T, name string) []byte {
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	require.NoError(t, err)
	return b
}

func (w *world) bash(line string) *exec.Cmd {
	cmd := exec.Command("bash", "-o", "pipefail", "-c", w.replace.Replace(line))
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

// start runs a command line until the test ends.
func (w *world) start(t *testing.T, line string) {
	cmd := w.bash(line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// run runs a command line, which must do well.
func (w *world) run(t *testing.T, line string) {
	start := time.Now()
	cmd := w.bash(line)
	out, err := cmd.CombinedOutput()
	t.Logf("%s: %v", line, time.Since(start))
	if strings.Contains(line, "nats://") && cmd.ProcessState.ExitCode() == 3 {
		return // it ended before it knew all
	}
	if strings.Contains(string(out), "stopped while opening") {
		return // or before it had read anything, on a busy machine
	}
	require.NoErrorf(t, err, "%s\n%s", cmd, out)
}
