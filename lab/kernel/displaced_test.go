//go:build linux && cgo

package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/aquasecurity/libbpfgo"
	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/internal/perfevent"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// displacements are ways in which a map's entries become another reader's. They return what undoes
// it.
var displacements = map[string]func(t *testing.T, e *kerneltest.Emitter) (undo func()){
	"another reader": func(t *testing.T, e *kerneltest.Emitter) func() {
		r := open(t, e, perfbuf.Options{})
		return func() { r.Close() }
	},
	"libbpf's perf_buffer": func(t *testing.T, e *kerneltest.Emitter) func() { return perfBuffer(t, e).Close },
	"a reader that is closed again": func(t *testing.T, e *kerneltest.Emitter) func() {
		require.NoError(t, open(t, e, perfbuf.Options{}).Close())
		return func() {}
	},
	"entries deleted": func(t *testing.T, e *kerneltest.Emitter) func() {
		for _, cpu := range kerneltest.OnlineCPUs(t) {
			require.NoError(t, bpf.MapDelete(e.MapFD(), uint32(cpu)))
		}
		return func() {}
	},
}

// perfBuffer opens the map with libbpf's perf_buffer__new.
func perfBuffer(t *testing.T, e *kerneltest.Emitter) *libbpfgo.PerfBuffer {
	t.Helper()
	pb, err := e.Module().InitPerfBuf("events", make(chan []byte), nil, 4)
	require.NoError(t, err)
	return pb
}

// Every consumer, under every wakeup policy, gets all events of the rings and then the error,
// though no event wakes it. Other readers' entries stay in the map.
func TestKernelDisplaced(t *testing.T) {
	requireRuns(t)
	policies := map[string]perfbuf.Wakeup{"doorbell": {}, "each event": {Events: 1}, "many bytes": {Bytes: 1 << 15}, "polls": {PollInterval: 1e8, Bytes: 1 << 15}}
	for name, displace := range displacements {
		for policy, wakeup := range policies {
			if name != "another reader" && policy != "doorbell" {
				continue
			}
			for mode, read := range readings {
				t.Run(fmt.Sprintf("%s, %s, %s", name, policy, mode), func(t *testing.T) {
					t.Parallel()
					e, r := loadAndOpen(t, perfbuf.Options{Wakeup: wakeup})
					cpus := r.Options().CPUs
					s := read(t, r)
					opened := r.Stats().Displaced
					require.NoError(t, opened.Err)
					require.Zero(t, opened.Entries)
					require.NotZero(t, opened.OwnedUntil)
					e.EmitOn(cpus, 3, 40)
					defer displace(t, e)()
					after := perfbuf.Now()
					got := 0
					err := s.Run(t.Context(), func(perfbuf.Event) error { got++; return nil })
					require.ErrorIs(t, err, perfbuf.ErrDisplaced)
					require.ErrorContains(t, err, fmt.Sprintf("%d CPUs", len(cpus)))
					require.Equal(t, 3*len(cpus), got)
					d := r.Stats().Displaced
					require.Equal(t, len(cpus), d.Entries)
					require.LessOrEqual(t, d.OwnedUntil, after)
					require.GreaterOrEqual(t, d.OwnedUntil, opened.OwnedUntil)
				})
			}
		}
	}
}

// looked waits until all entries have been looked at once more, and were the reader's.
func looked(t *testing.T, r *perfbuf.Reader) {
	t.Helper()
	at := perfbuf.Now()
	eventually(t, "another look", func() bool { return r.Stats().Displaced.OwnedUntil > at })
	require.Zero(t, r.Stats().Displaced.Entries)
}

// A reader that has lost some CPUs goes on with the others, and has all again when it takes them
// back.
func TestKernelDisplacedInPart(t *testing.T) {
	requireRuns(t)
	cpus := kerneltest.OnlineCPUs(t)
	if len(cpus) == 1 {
		t.Skip("needs two CPUs")
	}
	for mode, read := range readings {
		t.Run(mode, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{})
			s := read(t, r)
			defer load(t, e, cpus[1:], 60, 1e6)() // it always has something to read
			next := func(cpu int) error {
				return s.Run(t.Context(), func(ev perfbuf.Event) error {
					if ev.Kind() == perfbuf.KindSample && ev.CPU() == cpu {
						return perfbuf.ErrStop
					}
					return nil
				})
			}
			other := open(t, e, perfbuf.Options{CPUs: cpus[:1]})
			require.ErrorIs(t, next(cpus[0]), perfbuf.ErrDisplaced)
			require.NoError(t, next(cpus[1]))
			require.Equal(t, 1, r.Stats().Displaced.Entries)
			require.NoError(t, r.Pause())
			require.NoError(t, r.Resume())
			e.Emit(cpus[0], 1, 40)
			require.NoError(t, next(cpus[0]))
			require.ErrorIs(t, unordered(t, other).Run(t.Context(), nothing), perfbuf.ErrDisplaced)

			require.NoError(t, bpf.MapDelete(e.MapFD(), uint32(cpus[1])))
			require.ErrorIs(t, next(cpus[0]), perfbuf.ErrDisplaced, "again")
			require.Equal(t, 2, r.Stats().Displaced.Entries)
		})
	}
}

// Rings that are read one by one: the error is that of the ring whose entry is another's. It does
// not keep the others from being read.
func TestKernelDisplacedRing(t *testing.T) {
	requireRuns(t)
	e, r := loadAndOpen(t, perfbuf.Options{})
	rings := r.Rings()
	open(t, e, perfbuf.Options{CPUs: []int{rings[0].CPU()}})
	ctx, cancel := context.WithCancel(t.Context())
	var others []<-chan struct{}
	for _, ring := range rings[1:] {
		s := ofRing(t, ring)
		others = append(others, background(t, func() { assert.ErrorIs(t, s.Run(ctx, nothing), context.Canceled); s.Close() }))
	}
	first := ofRing(t, rings[0])
	require.ErrorIs(t, first.Run(t.Context(), nothing), perfbuf.ErrDisplaced)
	require.NoError(t, first.ForEach(nothing), "once")
	require.NoError(t, first.Close())
	cancel()
	for _, done := range others {
		<-done
	}
	require.ErrorIs(t, unordered(t, r).ForEach(nothing), perfbuf.ErrDisplaced, "a stream of all rings says so too")
}

// These are no displacements: a pause and changes by others during it, new perf events, the end of
// an older reader.
func TestKernelNotDisplaced(t *testing.T) {
	requireRuns(t)
	e := kerneltest.Load(t)
	older := open(t, e, perfbuf.Options{})
	r, plug := openPlug(t, perfevent.Map{FD: e.MapFD()}, perfbuf.Options{})
	olders := unordered(t, older)
	require.NoError(t, older.Close())
	looked(t, r)
	require.NoError(t, r.Pause())
	other := open(t, e, perfbuf.Options{})
	looked(t, r)
	require.NoError(t, r.Resume())
	looked(t, r)
	require.NoError(t, other.Close())
	looked(t, r)
	for i := range r.Rings() {
		plug.reopen(t, i)
	}
	looked(t, r)
	s := unordered(t, r)
	require.NoError(t, s.ForEach(nothing))
	require.NoError(t, s.Shutdown(t.Context(), nothing))
	require.Zero(t, r.Stats().Displaced.Entries)
	require.ErrorIs(t, olders.Run(t.Context(), nothing), os.ErrClosed)
}

// However a reader ends that has not noticed yet, it says so in the end, after all that its rings
// held.
func TestKernelDisplacedAtTheEnd(t *testing.T) {
	requireRuns(t)
	e := kerneltest.Load(t)
	for mode, read := range readings {
		t.Run(mode, func(t *testing.T) {
			r := open(t, e, perfbuf.Options{})
			cpus := r.Options().CPUs
			s := read(t, r)
			requireTaken(t, e, cpus)
			newer := open(t, e, perfbuf.Options{})
			got := 0
			err := s.Shutdown(t.Context(), func(perfbuf.Event) error { got++; return nil })
			require.ErrorIs(t, err, perfbuf.ErrDisplaced)
			require.Equal(t, len(cpus), got)
			require.Equal(t, len(cpus), r.Stats().Displaced.Entries)
			require.Equal(t, os.ErrClosed, s.ForEach(nothing))
			requireTaken(t, e, cpus)

			third := open(t, e, perfbuf.Options{})
			require.NoError(t, newer.Close())
			require.Equal(t, len(cpus), newer.Stats().Displaced.Entries)
			require.NoError(t, third.Close())
			require.Zero(t, third.Stats().Displaced.Entries)
		})
	}
}

// A stream of several readers names the map, and goes on with the others.
func TestKernelDisplacedSource(t *testing.T) {
	requireRuns(t)
	one, two := kerneltest.Load(t), kerneltest.Load(t)
	a, b := open(t, one, perfbuf.Options{}), open(t, two, perfbuf.Options{})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, a, b)
	require.NoError(t, err)
	open(t, two, perfbuf.Options{})
	err = s.Run(t.Context(), nothing)
	require.ErrorIs(t, err, perfbuf.ErrDisplaced)
	require.ErrorContains(t, err, fmt.Sprintf("(id %d)", mapID(t, two.MapFD())))
	require.NoError(t, s.Remove(b))
	one.Emit(a.Rings()[0].CPU(), 1, 40)
	require.NoError(t, s.Run(t.Context(), func(perfbuf.Event) error { return perfbuf.ErrStop }))
	require.Zero(t, a.Stats().Displaced.Entries)
}

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
	for name, end := range map[string]func(t *testing.T, r *perfbuf.Reader, plug *plug){
		"close": func(t *testing.T, r *perfbuf.Reader, _ *plug) { require.NoError(t, r.Close()) },
		"pause": func(t *testing.T, r *perfbuf.Reader, _ *plug) { require.NoError(t, r.Pause()) },
		"shutdown": func(t *testing.T, r *perfbuf.Reader, _ *plug) {
			require.ErrorIs(t, unordered(t, r).Shutdown(t.Context(), nothing), perfbuf.ErrDisplaced)
		},
		"new perf events": func(t *testing.T, r *perfbuf.Reader, plug *plug) { // as after the CPU was offline
			for i := range r.Rings() {
				plug.reopen(t, i)
			}
			require.NoError(t, r.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			old, plug := openPlug(t, perfevent.Map{FD: e.MapFD()}, perfbuf.Options{})
			cpus := old.Options().CPUs
			r := open(t, e, perfbuf.Options{})
			require.Equal(t, len(cpus), r.Stats().ReplacedEntries)
			end(t, old, plug)
			requireTaken(t, e, cpus)
			require.Len(t, collect(t, unordered(t, r)), len(cpus))
			require.NoError(t, old.Close())
			require.NoError(t, old.Stats().CloseErr)
			require.Zero(t, old.Stats().Total().Dropped)
			requireTaken(t, e, cpus)
			require.NoError(t, r.Close())
			requireUnhooked(t, e, cpus, syscall.ENOENT)
		})
		t.Run(name+", libbpf's perf_buffer is newer", func(t *testing.T) {
			leak.Check(t)
			old, plug := openPlug(t, perfevent.Map{FD: e.MapFD()}, perfbuf.Options{})
			pb := perfBuffer(t, e)
			end(t, old, plug)
			requireTaken(t, e, old.Options().CPUs)
			require.NoError(t, old.Close())
			requireTaken(t, e, old.Options().CPUs)
			pb.Close()
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
			s := unordered(t, r)
			background(t, func() {
				// It goes on
				for errors.Is(s.Run(t.Context(), nothing), perfbuf.ErrDisplaced) {
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
	require.Len(t, collect(t, unordered(t, old)), len(old.Rings()))
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
		require.NoError(t, bpf.MapDelete(e.MapFD(), uint32(cpu)))
	}
	requireUnhooked(t, e, cpus, syscall.ENOENT)
	s := unordered(t, old)
	woken := background(t, func() { require.NoError(t, s.Wait(t.Context())) })
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
					n := 0 // updates of the reader's own map before
					if libbpf.Available {
						n = len(kerneltest.OnlineCPUs(t))
					}
					which = func(i int) bool { return i > n && (i-n)%2 == 0 }
				}
				require.Positive(t, kerneltest.Fail(t, c.call, syscall.EPERM, which, f))
			}
			fail(c.open, func() { old = open(t, e, perfbuf.Options{}) })
			cpus := old.Options().CPUs
			requireTaken(t, e, cpus)
			require.Len(t, collect(t, unordered(t, old)), len(cpus))
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
	require.Len(t, collect(t, unordered(t, r)), len(cpus))
	require.NoError(t, r.Close())
	eventually(t, "all is given back", func() bool { return fmt.Sprint(belongings(t)) == before })
}
