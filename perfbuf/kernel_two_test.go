//go:build linux && cgo

package perfbuf_test

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	callProgLoad = kerneltest.CallBPF(unix.BPF_PROG_LOAD, "BPF_PROG_LOAD")
	callTestRun  = kerneltest.CallBPF(unix.BPF_PROG_TEST_RUN, "BPF_PROG_TEST_RUN")
)

// requireRuns skips the test where user space cannot have a program look at a map: before Linux
// 5.10.
func requireRuns(t *testing.T) {
	t.Helper()
	if !kerneltest.AtLeast(t, 5, 10) {
		t.Skip("readers do not see each other before Linux 5.10")
	}
}

// requireTaken requires that all outputs go into somebody's rings.
func requireTaken(t *testing.T, e *kerneltest.Emitter, cpus []int) {
	t.Helper()
	for _, cpu := range cpus {
		e.Emit(cpu, 1, 24)
		require.NoError(t, e.LastError(cpu), "CPU %d", cpu)
	}
}

// written is how many outputs went into rings.
func written(e *kerneltest.Emitter, cpus []int) (n uint64) {
	for _, cpu := range cpus {
		attempted, failed := e.Counts(cpu)
		n += attempted - failed
	}
	return n
}

// However an older reader ends, a newer reader's entries stay, in the same process or another.
func TestKernelOlderReaderEnds(t *testing.T) {
	requireRuns(t)
	e := kerneltest.Load(t)
	for name, end := range map[string]func(t *testing.T, r *perfbuf.Reader){
		"close": func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, r.Close()) },
		"pause": func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, r.Pause()) },
		"shutdown": func(t *testing.T, r *perfbuf.Reader) {
			require.ErrorIs(t, perfbuf.StreamOf(t, r).Shutdown(t.Context(), nothing), perfbuf.ErrDisplaced)
		},
		"new perf events": func(t *testing.T, r *perfbuf.Reader) { // as after the CPU was offline
			for i := range r.Rings() {
				require.NoError(t, r.Reopen(i))
			}
			require.NoError(t, r.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			old := open(t, e, perfbuf.Options{})
			cpus := old.Options().CPUs
			r := open(t, e, perfbuf.Options{})
			require.Equal(t, len(cpus), r.Stats().ReplacedEntries)
			end(t, old)
			requireTaken(t, e, cpus)
			require.Len(t, collect(t, perfbuf.StreamOf(t, r)), len(cpus))
			require.NoError(t, old.Close())
			require.NoError(t, old.Stats().CloseErr)
			require.Zero(t, old.Stats().Total().Dropped)
			requireTaken(t, e, cpus)
			require.NoError(t, r.Close())
			requireUnhooked(t, e, cpus, syscall.ENOENT)
		})
		t.Run(name+", libbpf's perf_buffer is newer", func(t *testing.T) {
			leak.Check(t)
			old := open(t, e, perfbuf.Options{})
			pb, err := libbpf.New(e.MapFD(), 4)
			require.NoError(t, err)
			end(t, old)
			requireTaken(t, e, old.Options().CPUs)
			require.NoError(t, old.Close())
			requireTaken(t, e, old.Options().CPUs)
			pb.Free()
			requireUnhooked(t, e, old.Options().CPUs, syscall.ENOENT)
		})
	}
}

// An older reader that runs on, and switches between doorbells and watermarks, does not get its
// entries back. Nothing comes twice, nor is anything missing in the sum.
func TestKernelOlderReaderRuns(t *testing.T) {
	requireRuns(t)
	for round := range 3 {
		e := kerneltest.Load(t)
		old := open(t, e, perfbuf.Options{})
		cpus := old.Options().CPUs
		run := func(r *perfbuf.Reader) {
			background(t, func() {
				// It goes on
				for errors.Is(perfbuf.StreamOf(t, r).Run(t.Context(), nothing), perfbuf.ErrDisplaced) {
				}
			})
		}
		run(old)
		stop := load(t, e, cpus, 60, 100*time.Microsecond)
		eventually(t, "the doorbells are out of the map", func() bool {
			s := old.Stats()
			return s.Total().Samples > 0 && s.Doorbell.Armed == 0
		})
		r := open(t, e, perfbuf.Options{})
		before := written(e, cpus) + uint64(len(cpus)) // as each CPU may be in an output
		run(r)
		eventually(t, "the older one would have its doorbells in the map", func() bool { return old.Stats().Doorbell.Armed == len(cpus) })
		for range 3 { // while the newer one switches
			n := r.Stats().Total().Samples + 1000
			eventually(t, "the newer one gets events", func() bool { return r.Stats().Total().Samples > n })
		}
		stop()
		require.LessOrEqual(t, old.Stats().Total().Samples, before, "round %d", round)
		requireTaken(t, e, cpus)
		require.NoError(t, old.Close())
		requireTaken(t, e, cpus)
		require.NoError(t, r.Close())
		<-old.Done()
		<-r.Done()
		a, b := old.Stats().Total(), r.Stats().Total()
		require.Equal(t, written(e, cpus), a.Samples+a.Dropped+b.Samples+b.Dropped)
		requireUnhooked(t, e, cpus, syscall.ENOENT)
	}
}

// An older reader that is resumed has the map again, as if it were opened.
func TestKernelOlderReaderResumes(t *testing.T) {
	e := kerneltest.Load(t)
	leak.Check(t)
	old := open(t, e, perfbuf.Options{})
	require.NoError(t, old.Pause())
	r := open(t, e, perfbuf.Options{})
	require.NoError(t, old.Resume())
	requireTaken(t, e, old.Options().CPUs)
	require.Len(t, collect(t, perfbuf.StreamOf(t, old)), len(old.Rings()))
	require.NoError(t, r.Close())
	require.NoError(t, old.Close())
}

// A reader whose entries somebody has emptied stores them again when it next switches: they are
// nobody's.
func TestKernelEmptiedEntryIsTakenAgain(t *testing.T) {
	e := kerneltest.Load(t)
	leak.Check(t)
	old := open(t, e, perfbuf.Options{})
	cpus := old.Options().CPUs
	for _, cpu := range cpus {
		require.NoError(t, libbpf.MapDelete(e.MapFD(), uint32(cpu)))
	}
	requireUnhooked(t, e, cpus, syscall.ENOENT)
	woken := background(t, func() { require.NoError(t, perfbuf.StreamOf(t, old).Wait(t.Context())) })
	eventually(t, "the doorbells are in the map", func() bool { return old.Stats().Doorbell.Armed == len(cpus) })
	requireTaken(t, e, cpus)
	<-woken
	require.NoError(t, old.Close())
}

// A reader that cannot look at entries does without: it takes those it once had for its own.
func TestKernelBlindReader(t *testing.T) {
	e := kerneltest.Load(t)
	for name, c := range map[string]struct {
		call        kerneltest.Call
		open, close bool
	}{
		"no program":       {callProgLoad, true, false},
		"it does not run":  {callTestRun, false, true},
		"no copies in own": {callUpdate, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			var old *perfbuf.Reader
			fail := func(on bool, f func()) {
				if !on {
					f()
					return
				}
				which := all
				if c.call.String() == callUpdate.String() {
					n := len(onlineCPUs(t))
					which = func(i int) bool { return i > n && (i-n)%2 == 0 }
				}
				require.Positive(t, kerneltest.Fail(t, c.call, syscall.EPERM, which, f))
			}
			fail(c.open, func() { old = open(t, e, perfbuf.Options{}) })
			cpus := old.Options().CPUs
			requireTaken(t, e, cpus)
			require.Len(t, collect(t, perfbuf.StreamOf(t, old)), len(cpus))
			r := open(t, e, perfbuf.Options{})
			fail(c.close, func() { require.NoError(t, old.Close()) })
			require.ErrorContains(t, old.Stats().Displaced.Err, "cannot look whether the map's entries are still this reader's")
			require.Zero(t, old.Stats().Displaced.Entries)
			require.NoError(t, old.Stats().CloseErr)
			requireUnhooked(t, e, cpus, syscall.ENOENT)
			require.NoError(t, r.Close())
		})
	}
}

// A reader that nobody has closed leaves a newer one's entries when it is collected.
func TestKernelOlderReaderIsForgotten(t *testing.T) {
	requireRuns(t)
	e := kerneltest.Load(t)
	before := fmt.Sprint(belongings(t))
	func() {
		_, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
		require.NoError(t, err)
	}()
	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	cpus := r.Options().CPUs
	both := len(belongings(t))
	for len(belongings(t)) == both {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	requireTaken(t, e, cpus)
	require.Len(t, collect(t, perfbuf.StreamOf(t, r)), len(cpus))
	require.NoError(t, r.Close())
	eventually(t, "all is given back", func() bool { return fmt.Sprint(belongings(t)) == before })
}
