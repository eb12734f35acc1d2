//go:build linux && cgo

package perfbuf_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	victimEnv = "RINGFOLD_TEST_VICTIM" // the action of the child to be killed
	victimMap = "RINGFOLD_TEST_MAP"    // id of its map; else it is descriptor 3
)

// TestKernelVictim is the child's part: it does something with a Reader until it is killed, and
// says when that has begun.
func TestKernelVictim(t *testing.T) {
	do, ok := victims[os.Getenv(victimEnv)]
	if !ok {
		return // it is for a child process of other tests
	}
	go func() { // not longer than its parent
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	fd := 3
	if id := os.Getenv(victimMap); id != "" {
		n, err := strconv.Atoi(id)
		require.NoError(t, err)
		m, err := libbpfgo.GetMapByID(uint32(n))
		require.NoError(t, err)
		fd = m.FileDescriptor()
	}
	do(t, fd, sync.OnceFunc(func() { fmt.Println("begun") }))
}

// victims do not return.
var victims = map[string]func(t *testing.T, mapFD int, begun func()){
	"run": func(t *testing.T, mapFD int, begun func()) {
		t.Error(perfbuf.StreamOf(t, victim(t, mapFD)).Run(t.Context(), func(perfbuf.Event) error { begun(); return nil }))
	},
	"ordered": func(t *testing.T, mapFD int, begun func()) {
		s, err := victim(t, mapFD).Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		t.Error(s.Run(t.Context(), func(perfbuf.Event) error { begun(); return nil }))
	},
	"in an event": func(t *testing.T, mapFD int, begun func()) {
		t.Error(perfbuf.StreamOf(t, victim(t, mapFD)).Run(t.Context(), func(perfbuf.Event) error { begun(); select {} }))
	},
	"asleep": func(t *testing.T, mapFD int, begun func()) { // with its doorbells in the map
		r := victim(t, mapFD)
		go perfbuf.StreamOf(t, r).Run(t.Context(), nothing)
		for r.Stats().Doorbell.Armed < len(r.Rings()) {
			time.Sleep(time.Millisecond)
		}
		begun()
		select {}
	},
	"open and close": func(t *testing.T, mapFD int, begun func()) {
		for {
			require.NoError(t, victim(t, mapFD).Close())
			begun()
		}
	},
	"pause and resume": func(t *testing.T, mapFD int, begun func()) {
		r := victim(t, mapFD)
		go perfbuf.StreamOf(t, r).Run(t.Context(), nothing)
		for {
			require.NoError(t, r.Pause())
			require.NoError(t, r.Resume())
			begun()
		}
	},
}

func victim(t *testing.T, mapFD int) *perfbuf.Reader {
	r, err := perfbuf.Open(mapFD, perfbuf.Options{RingBytes: 64 << 10})
	require.NoError(t, err)
	return r
}

// kill starts a child that does something with a map, and kills it a random time after that has
// begun. The child gets the map by its id, or inherits a file.
func kill(t *testing.T, what string, mapID uint32, file *os.File, most time.Duration) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKernelVictim$", "-test.count=1")
	cmd.Env = append(os.Environ(), victimEnv+"="+what)
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	} else {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", victimMap, mapID))
	}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	var text strings.Builder
	for lines := bufio.NewScanner(io.TeeReader(out, &text)); lines.Scan() && lines.Text() != "begun"; {
	}
	require.Contains(t, text.String(), "begun\n", what)
	time.Sleep(rand.N(most))
	require.NoError(t, cmd.Process.Kill())
	err = cmd.Wait()
	require.ErrorContains(t, err, "signal: killed")
}

// The entries of a killed reader vanish with it, and the next one has the map for itself.
func TestKernelKilled(t *testing.T) {
	kerneltest.RequireRoot(t) // maps by their ids
	e := kerneltest.Load(t)
	leak.Check(t)
	info, err := libbpfgo.GetMapInfoByFD(e.MapFD())
	require.NoError(t, err)
	first := open(t, e, perfbuf.Options{})
	require.NoError(t, first.Close())
	cpus := first.Options().CPUs
	for what := range victims {
		t.Run(what, func(t *testing.T) {
			for range 2 {
				stop := func() {}
				if what != "asleep" {
					stop = load(t, e, cpus, 300, 100*time.Microsecond)
				}
				kill(t, what, info.ID, nil, 20*time.Millisecond)
				stop()
				requireUnhooked(t, e, cpus, syscall.ENOENT)
				r := open(t, e, perfbuf.Options{})
				require.Zero(t, r.Stats().ReplacedEntries)
				requireReads(t, e, r)
				require.NoError(t, r.Close())
			}
		})
	}
}

// The kernel removes entries when the file is closed that they were put through
// (perf_event_fd_array_release in kernel/bpf/arraymap.c). A file that others have too, as it was
// inherited or handed over by a socket, stays open: the entries stay, and their perf events, but
// not the rings. Outputs fail, and the next reader takes the places.
func TestKernelKilledSharedFile(t *testing.T) {
	e := kerneltest.Load(t)
	leak.Check(t)
	fd, err := unix.FcntlInt(uintptr(e.MapFD()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), "map")
	defer file.Close()
	first := open(t, e, perfbuf.Options{})
	require.NoError(t, first.Close())
	cpus := first.Options().CPUs
	for _, what := range []string{"in an event", "asleep"} {
		stop := func() {}
		if what != "asleep" {
			stop = load(t, e, cpus, 300, 100*time.Microsecond)
		}
		kill(t, what, 0, file, time.Millisecond)
		stop()
		requireUnhooked(t, e, cpus, syscall.ENOSPC)
		r := open(t, e, perfbuf.Options{})
		require.Equal(t, len(cpus), r.Stats().ReplacedEntries)
		requireReads(t, e, r)
		require.NoError(t, r.Close())
		requireUnhooked(t, e, cpus, syscall.ENOENT)
	}
}

// A map may keep its entries (BPF_F_PRESERVE_ELEMS). The next reader takes them over from one that
// was killed.
func TestKernelKilledPreserved(t *testing.T) {
	kerneltest.RequireRoot(t)
	e := kerneltest.Load(t)
	leak.Check(t)
	own, err := libbpfgo.GetMapInfoByFD(e.MapFD())
	require.NoError(t, err)
	const preserve = 1 << 11 // BPF_F_PRESERVE_ELEMS
	m, err := libbpfgo.CreateMap(libbpfgo.MapTypePerfEventArray, "made_by_a_test", 4, 4, int(own.MaxEntries),
		&libbpfgo.BPFMapCreateOpts{MapFlags: preserve})
	require.NoError(t, err)
	defer unix.Close(m.FileDescriptor())
	info, err := libbpfgo.GetMapInfoByFD(m.FileDescriptor())
	require.NoError(t, err)
	kill(t, "asleep", info.ID, nil, time.Millisecond)
	for _, displaced := range []bool{true, false} {
		r, err := perfbuf.Open(m.FileDescriptor(), perfbuf.Options{})
		require.NoError(t, err)
		require.Equal(t, displaced, r.Stats().ReplacedEntries == len(r.Rings()))
		require.NoError(t, r.Close())
	}
}
