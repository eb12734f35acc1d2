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

// `make recordings` makes the recordings of examples' programs anew: of processes that each start on one CPU and go on on another. Nothing else of what the
// machine does is kept.
func TestMakeRecordings(t *testing.T) {
	if os.Getenv("UPDATE_RECORDINGS") == "" {
		t.Skip("make recordings")
	}
	kerneltest.Require(t)
	runtime.LockOSThread() // processes begin on its CPU
	for name, programs := range map[string][]string{
		"exec": {"on_exec"}, "ordered": {"on_exec", "on_exit"}, "recorder": {"on_exec", "on_exit"},
	} {
		object := "../../examples/" + name + "/" + name + ".bpf.o"
		module, err := libbpfgo.NewModuleFromFileArgs(libbpfgo.NewModuleArgs{BPFObjPath: object, SkipMemlockBump: true})
		require.NoError(t, err)
		require.NoError(t, module.BPFLoadObject())
		events, err := module.GetMap("events")
		require.NoError(t, err)
		r, err := perfbuf.Open(events.FileDescriptor(), perfbuf.Options{})
		require.NoError(t, err)
		s, err := r.Ordered(perfbuf.OrderOptions{})
		require.NoError(t, err)
		for _, name := range programs {
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
		rec, err := perfdata.Create(all, perfdata.Options{})
		require.NoError(t, err)
		require.NoError(t, s.Drain(t.Context(), rec.Record))
		require.NoError(t, rec.Close())
		module.Close()
		keepOnly(t, all, "testdata/"+name+".perf.data", func(ev perfbuf.Event) bool {
			b := ev.Bytes()
			switch name {
			case "exec":
				return bytes.HasPrefix(b, []byte("/bin/true\x00")) || bytes.HasPrefix(b, []byte("/usr/bin/taskset\x00"))
			case "ordered": // kind, pid
				return pids[binary.NativeEndian.Uint32(b[4:])]
			}
			return pids[binary.NativeEndian.Uint32(b[8:])]
		})
	}
}

// keepOnly records anew those events of a recording that are to be kept, and nothing about this machine.
func keepOnly(t *testing.T, from, to string, keep func(perfbuf.Event) bool) {
	r, err := perfdata.Open(from, perfdata.ReplayOptions{})
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Ordered(perfbuf.OrderOptions{})
	require.NoError(t, err)
	args := os.Args
	os.Args = []string{"record"}
	rec, err := perfdata.Create(to, perfdata.Options{})
	require.NoError(t, err)
	require.Equal(t, io.EOF, s.Run(context.Background(), func(ev perfbuf.Event) error {
		if ev.Kind() == perfbuf.KindSample && !keep(ev) {
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
