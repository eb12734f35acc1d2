//go:build linux && cgo

package kernel_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
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
		t.Error(unordered(t, victim(t, mapFD)).Run(t.Context(), func(perfbuf.Event) error { begun(); return nil }))
	},
	"ordered": func(t *testing.T, mapFD int, begun func()) {
		s, err := victim(t, mapFD).Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		t.Error(s.Run(t.Context(), func(perfbuf.Event) error { begun(); return nil }))
	},
	"in an event": func(t *testing.T, mapFD int, begun func()) {
		t.Error(unordered(t, victim(t, mapFD)).Run(t.Context(), func(perfbuf.Event) error { begun(); select {} }))
	},
	"asleep": func(t *testing.T, mapFD int, begun func()) { // with its doorbells in the map
		r := victim(t, mapFD)
		go unordered(t, r).Run(t.Context(), nothing)
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
		go unordered(t, r).Run(t.Context(), nothing)
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

// A Reader that is dropped and not closed is cleaned up, after every kind of use.
func TestKernelUnreachable(t *testing.T) {
	one := func(perfbuf.Event) error { return perfbuf.ErrStop }
	for name, use := range map[string]func(t *testing.T, r *perfbuf.Reader){
		"not used": func(*testing.T, *perfbuf.Reader) {},
		"pass":     func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, unordered(t, r).ForEach(nothing)) },
		"run": func(t *testing.T, r *perfbuf.Reader) {
			require.NoError(t, unordered(t, r).Run(t.Context(), one))
		},
		"run until cancelled": func(t *testing.T, r *perfbuf.Reader) {
			ctx, cancel := context.WithCancel(t.Context())
			require.Equal(t, context.Canceled, unordered(t, r).Run(ctx, func(perfbuf.Event) error { cancel(); return nil }))
		},
		"run in a goroutine": func(t *testing.T, r *perfbuf.Reader) {
			ended := background(t, func() { require.NoError(t, unordered(t, r).Run(t.Context(), one)) })
			<-ended
		},
		"wait": func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, unordered(t, r).Wait(t.Context())) },
		"rings": func(t *testing.T, r *perfbuf.Reader) {
			ring := r.Rings()[0]
			s, err := ring.Stream()
			require.NoError(t, err)
			require.NoError(t, s.Run(t.Context(), one))
			require.NoError(t, s.Wait(t.Context()))
		},
		"events left by break": func(t *testing.T, r *perfbuf.Reader) {
			for range unordered(t, r).Events(t.Context()) {
				break
			}
		},
		"records left by break": func(t *testing.T, r *perfbuf.Reader) {
			for range unordered(t, r).Records(t.Context()) {
				break
			}
		},
		"flushed": func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, unordered(t, r).Flush()) },
		"paused":  func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, r.Pause()) },
		"exact stream": func(t *testing.T, r *perfbuf.Reader) {
			exact(t, r)
		},
		"exact stream that was run": func(t *testing.T, r *perfbuf.Reader) {
			require.NoError(t, exact(t, r).Run(t.Context(), one))
		},
		"exact stream left by break": func(t *testing.T, r *perfbuf.Reader) {
			for range exact(t, r).Events(t.Context()) {
				break
			}
		},
		"stream that was closed": func(t *testing.T, r *perfbuf.Reader) {
			require.NoError(t, exact(t, r).Close())
		},
		"stream with slack": func(t *testing.T, r *perfbuf.Reader) {
			require.NoError(t, ordered(t, r).Run(t.Context(), one))
		},
	} {
		if name != "paused" {
			t.Run("ring buffers: "+name, func(t *testing.T) { unreachableRingBufs(t, use) })
		}
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			leak.Check(t)
			before := atRest(t)
			var cpus []int
			func() {
				r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{RingBytes: 64 << 10})
				require.NoError(t, err)
				cpus = r.Options().CPUs
				e.EmitOn(cpus, 3, 24)
				use(t, r)
				require.NotEqual(t, before, belongings(t))
			}()
			collected(t, before)
			requireUnhooked(t, e, cpus, syscall.ENOENT)
			r := open(t, e, perfbuf.Options{})
			require.Zero(t, r.Stats().ReplacedEntries)
			require.NoError(t, r.Close())
		})
	}
}

// collected waits until the resources of dropped readers are released.
func collected(t *testing.T, before []string) {
	t.Helper()
	for !slices.Equal(before, belongings(t)) {
		runtime.GC()
	}
}

// unreachableRingBufs is TestKernelUnreachable of a ring buffer, and of one in an array.
func unreachableRingBufs(t *testing.T, use func(t *testing.T, r *perfbuf.Reader)) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	e.SetShard(0, kerneltest.NewRingBuf(t, 4096))
	leak.Check(t)
	for to, fds := range map[string][2]int{"shared": {e.MapFD(), e.LanesFD()}, "shard": {e.ShardsFD(), e.ShardLanesFD()}} {
		before := atRest(t)
		func() {
			r, err := perfbuf.OpenRingBuf(fds[0], perfbuf.Options{Time: perfbuf.PayloadTime(kerneltest.RingTimeAt), LanesFD: fds[1]})
			require.NoError(t, err)
			e.Emit(0, kerneltest.RingEmit{Count: 3, Size: 40, To: to})
			use(t, r)
			require.NotEqual(t, before, belongings(t))
		}()
		collected(t, before)
	}
}

// What hangs on to a Reader, keeps it: a ring, a stream, a goroutine that reads.
func TestKernelReachable(t *testing.T) {
	for name, keep := range map[string]func(t *testing.T, r *perfbuf.Reader) (kept any){
		"reader": func(_ *testing.T, r *perfbuf.Reader) any { return r },
		"ring":   func(_ *testing.T, r *perfbuf.Reader) any { return r.Rings()[0] },
		"stream": func(t *testing.T, r *perfbuf.Reader) any { return ordered(t, r) },
		"method": func(_ *testing.T, r *perfbuf.Reader) any { return unordered(t, r).Flush },
		"waiting goroutine": func(t *testing.T, r *perfbuf.Reader) any {
			ctx, cancel := context.WithCancel(t.Context())
			s := unordered(t, r)
			background(t, func() { require.Equal(t, context.Canceled, s.Run(ctx, nothing)) })
			t.Cleanup(cancel)
			return nil
		},
		"goroutine that waits for a ring": func(t *testing.T, r *perfbuf.Reader) any {
			ctx, cancel := context.WithCancel(t.Context())
			s, err := r.Rings()[0].Stream()
			require.NoError(t, err)
			background(t, func() { require.Equal(t, context.Canceled, s.Run(ctx, nothing)) })
			t.Cleanup(cancel)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			leak.Check(t)
			var cpus []int
			kept := func() any {
				r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{RingBytes: 64 << 10})
				require.NoError(t, err)
				cpus = r.Options().CPUs
				return keep(t, r)
			}()
			for range 5 { // a cleanup would have run
				runtime.GC()
				collected := make(chan struct{})
				runtime.AddCleanup(new([64]byte), func(struct{}) { close(collected) }, struct{}{})
				runtime.GC()
				<-collected
				for _, cpu := range cpus {
					e.Emit(cpu, 1, 24)
					require.NoError(t, e.LastError(cpu))
				}
			}
			runtime.KeepAlive(kept)
		})
	}
}
