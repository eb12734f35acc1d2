//go:build cgo

package perfdata_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// example is a program of an example, and a filter for the events to keep.
type example struct {
	object string   // under examples/
	attach []string // programs
	maps   []string // recorded; a ring buffer stores time and CPU as perfbuf_ringbuf.h does
	pidAt  int      // where payloads have the process; -1: each is kept
	most   int      // events that are kept; 0: all
}

var examples = map[string]example{
	"exec":       {"exec/exec", []string{"on_exec"}, []string{"events"}, -1, 0},
	"ordered":    {"ordered/ordered", []string{"on_exec", "on_exit"}, []string{"events"}, 4, 0},
	"recorder":   {"recorder/recorder", []string{"on_exec", "on_exit"}, []string{"events"}, 8, 0},
	"callbacks":  {"callbacks/callbacks", []string{"on_sys_enter"}, []string{"events"}, -1, 300},
	"prometheus": {"prometheus/switches", []string{"on_switch"}, []string{"events"}, 0, 100},
	"sources":    {"sources/life", []string{"on_exec", "on_exit", "on_fork"}, []string{"execs", "exits", "forks"}, 0, 0},
}

// `make recordings` records examples' programs anew: processes that each start on one CPU and move
// to another. It keeps no other activity of the machine.
func TestMakeRecordings(t *testing.T) {
	if os.Getenv("UPDATE_RECORDINGS") == "" {
		t.Skip("make recordings")
	}
	kerneltest.Require(t)
	runtime.LockOSThread() // processes begin on its CPU
	for name, e := range examples {
		module, err := libbpfgo.NewModuleFromFileArgs(libbpfgo.NewModuleArgs{BPFObjPath: "../../examples/" + e.object + ".bpf.o", SkipMemlockBump: true})
		require.NoError(t, err)
		if name == "callbacks" {
			require.NoError(t, module.InitGlobalVariable("pid", uint32(os.Getpid())))
		}
		require.NoError(t, module.BPFLoadObject())
		var o perfdata.Options
		var readers []*perfbuf.Reader
		for _, name := range e.maps {
			events, err := module.GetMap(name)
			require.NoError(t, err)
			var r *perfbuf.Reader
			if events.Type() == libbpfgo.MapTypeRingbuf {
				r, err = perfbuf.OpenRingBuf(events.FileDescriptor(), perfbuf.Options{Time: perfbuf.StampedTime(0), CPU: perfbuf.PayloadCPU(8)})
			} else {
				r, err = perfbuf.Open(events.FileDescriptor(), perfbuf.Options{})
			}
			require.NoError(t, err)
			o.Events = append(o.Events, perfdata.EventInfo{Name: name})
			readers = append(readers, r)
		}
		s, err := perfbuf.Merge(perfbuf.StreamOptions{}, readers...)
		require.NoError(t, err)
		for _, name := range e.attach {
			prog, err := module.GetProgram(name)
			require.NoError(t, err)
			_, err = prog.AttachGeneric()
			require.NoError(t, err)
		}
		pids := map[uint32]bool{}
		for i := range 40 {
			var cpus unix.CPUSet
			cpus.Set(i % runtime.NumCPU())
			require.NoError(t, unix.SchedSetaffinity(0, &cpus))
			cmd := exec.Command("taskset", "-c", strconv.Itoa((i+1)%runtime.NumCPU()), "/bin/true")
			require.NoError(t, cmd.Run())
			pids[uint32(cmd.Process.Pid)] = true
		}
		all := filepath.Join(t.TempDir(), "all")
		rec, err := perfdata.Create(all, o)
		require.NoError(t, err)
		require.NoError(t, s.Drain(t.Context(), rec.Record))
		require.NoError(t, rec.Close())
		module.Close()
		kept := 0
		keepOnly(t, all, "testdata/"+name+".perf.data", func(from string, ev perfbuf.Event) bool {
			b := ev.Bytes()
			ours := e.pidAt < 0
			switch {
			case name == "exec":
				ours = bytes.HasPrefix(b, []byte("/bin/true\x00")) || bytes.HasPrefix(b, []byte("/usr/bin/taskset\x00"))
			case from == "forks":
				ours = pids[binary.NativeEndian.Uint32(b[16:])]
			case e.pidAt >= 0:
				ours = pids[binary.NativeEndian.Uint32(b[e.pidAt:])]
			}
			if ours {
				kept++
			}
			return ours && (e.most == 0 || kept <= e.most)
		})
	}
}

// keepOnly records anew those events of a recording that are to be kept, and nothing about this
// machine.
func keepOnly(t *testing.T, from, to string, keep func(event string, ev perfbuf.Event) bool) {
	readers := openedAll(t, from)
	var o perfdata.Options
	for _, r := range readers {
		o.Events = append(o.Events, perfdata.EventInfo{Name: r.Options().Name})
	}
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, readers...)
	require.NoError(t, err)
	args := os.Args
	os.Args = []string{"record"}
	rec, err := perfdata.Create(to, o)
	require.NoError(t, err)
	require.Equal(t, io.EOF, s.Run(context.Background(), func(ev perfbuf.Event) error {
		if ev.Kind() == perfbuf.KindSample && !keep(ev.Source(), ev) {
			return nil
		}
		return rec.Record(ev)
	}))
	require.NoError(t, rec.Close())
	os.Args = args
	b, err := os.ReadFile(to)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	require.NoError(t, err)
	for _, name := range []string{host, string(bytes.TrimSpace(release))} {
		b = bytes.ReplaceAll(b, append([]byte(name), 0), append(bytes.Repeat([]byte("x"), len(name)), 0))
	}
	require.NoError(t, os.WriteFile(to, b, 0o644))
}

// The file of a replay that is dropped and not closed is closed.
func TestUnreachable(t *testing.T) {
	path, err := filepath.Abs("testdata/exec.perf.data")
	require.NoError(t, err)
	isOpen := func() (found bool) {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, fd := range fds {
			to, _ := os.Readlink("/proc/self/fd/" + fd.Name())
			found = found || to == path
		}
		return found
	}
	one := func(perfbuf.Event) error { return perfbuf.ErrStop }
	for name, use := range map[string]func(*perfbuf.Reader) error{
		"not used": func(*perfbuf.Reader) error { return nil },
		"run":      func(r *perfbuf.Reader) error { return unordered(t, r).Run(t.Context(), one) },
		"stream": func(r *perfbuf.Reader) error {
			s, err := r.Stream(perfbuf.StreamOptions{})
			require.NoError(t, err)
			return s.Run(t.Context(), one)
		},
	} {
		t.Run(name, func(t *testing.T) {
			func() {
				r, err := perfdata.Open(path, perfdata.ReplayOptions{})
				require.NoError(t, err)
				require.NoError(t, use(r))
				require.True(t, isOpen())
			}()
			for isOpen() {
				runtime.GC()
			}
		})
	}
}
