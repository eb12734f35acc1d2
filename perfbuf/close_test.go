package perfbuf

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

func TestCloseTwice(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.output(0, 1)
	require.NoError(t, k.Close())
	require.Equal(t, int32(1), k.freed.Load(), "nobody is inside")
	require.NoError(t, k.Close())
	require.Equal(t, int32(1), k.freed.Load())
}

// f may close the reader: its event stays valid, the pass ends before the next event, and only then
// the memory goes.
func TestCloseWithinAPass(t *testing.T) {
	eachSource(t, 2, func(t *testing.T, k *fake, src *Stream) {
		k.output(0, 1, 2, 3)
		k.output(1, 4)
		n := 0
		err := src.ForEach(func(ev Event) error {
			n++
			require.NoError(t, k.Close())
			require.NoError(t, k.Close())
			require.Zero(t, k.freed.Load(), "freed under the feet of f")
			require.Zero(t, k.all()[1].Used(), "nobody else gets in")
			_, err := k.Stream(StreamOptions{})
			require.Equal(t, os.ErrClosed, err)
			require.Equal(t, uint64(1), id(t, ev))
			return nil
		})
		require.Equal(t, os.ErrClosed, err)
		require.Equal(t, 1, n)
		require.Equal(t, int32(1), k.freed.Load())
		st := k.Stats().Rings
		require.Equal(t, uint64(1), st[0].Samples, "what was handed out is consumed")
		require.Equal(t, uint64(3), st[0].Dropped+st[1].Dropped)
	})
}

// The result of f takes precedence over os.ErrClosed.
func TestCloseAndStopWithinAPass(t *testing.T) {
	for want, result := range map[error]error{nil: ErrStop, errTest: errTest} {
		k := newFake(t, 1, Options{})
		k.output(0, 1, 2)
		require.Equal(t, want, k.unordered().ForEach(func(Event) error {
			k.Close()
			return result
		}))
		require.Equal(t, int32(1), k.freed.Load())
	}
}

func TestEverythingAfterCloseIsErrClosed(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, source := range sourceKinds {
		for what, end := range map[string]func(k *fake, s *Stream){
			"reader": func(k *fake, _ *Stream) { k.Close() },
			"stream": func(_ *fake, s *Stream) { s.Close() },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				k := newFake(t, 2, Options{CPUs: []int{10, 11}})
				k.programs = &fakePrograms{}
				k.output(0, 1, 2)
				s := source(k)
				end(k, s)
				for name, call := range map[string]func() error{
					"Fold":           func() error { _, err := Fold(s, 0, func(int, Event) (int, error) { panic("called") }); return err },
					"ForEach":        func() error { return s.ForEach(never) },
					"ForEachPending": func() error { return s.ForEachPending(never) },
					"Run":            func() error { return s.Run(t.Context(), never) },
					"RunBatches":     func() error { return s.RunBatches(t.Context(), func(*Batch) error { panic("called") }) },
					"Events":         func() error { return only(t, s.Events(t.Context())) },
					"Records":        func() error { return only(t, s.Records(t.Context())) },
					"Wait":           func() error { return s.Wait(t.Context()) },
					"Drain":          func() error { return s.Drain(t.Context(), never) },
					"Flush":          s.Flush,
				} {
					require.Equal(t, os.ErrClosed, call(), name)
				}
				// A context that is done takes precedence.
				require.Equal(t, context.Canceled, s.Wait(canceled))
				require.Equal(t, context.Canceled, s.Run(canceled, never))
			})
		}
	}

	k := newFake(t, 2, Options{CPUs: []int{10, 11}})
	k.Close()
	ring := k.Rings()[0]
	_, err := ring.Stream()
	require.Equal(t, os.ErrClosed, err)
	_, err = k.Stream(StreamOptions{})
	require.Equal(t, os.ErrClosed, err)
	require.Zero(t, ring.Used())
	require.Equal(t, fakeRingSize, ring.Size())
	require.Equal(t, firstCPU, ring.CPU())
	require.Equal(t, []int{10, 11}, k.Options().CPUs)
	require.Len(t, k.Stats().Rings, 2)
	require.Zero(t, k.Stats().Rings[0].Used)
	require.Equal(t, int32(1), k.freed.Load())
	require.Zero(t, k.w[0].Tail(), "closing reads nothing")
}

// only returns the error of an iterator that must yield nothing else.
func only[V any](t *testing.T, seq func(func(V, error) bool)) error {
	var errs []error
	for _, err := range seq {
		errs = append(errs, err)
	}
	require.Len(t, errs, 1)
	return errs[0]
}

// Another goroutine closes while f has an event.
func TestCloseFromOutsideWaitsForNobody(t *testing.T) {
	eachSource(t, 1, func(t *testing.T, k *fake, src *Stream) {
		k.output(0, 1, 2)
		has, closed, result := make(chan bool), make(chan bool), make(chan error)
		go func() {
			result <- src.ForEach(func(ev Event) error {
				close(has)
				<-closed
				id(t, ev)
				return nil
			})
		}()
		<-has
		require.NoError(t, k.Close())
		require.Zero(t, k.freed.Load())
		close(closed)
		require.Equal(t, os.ErrClosed, <-result)
		require.Equal(t, int32(1), k.freed.Load())
	})
}

// Many readers and closers: the memory goes once, when all have left.
func TestCloseUnderLoad(t *testing.T) {
	for range 100 {
		k := newFake(t, 4, Options{})
		for i := range k.w {
			k.output(i, seq(1, 20)...)
		}
		var inside sync.WaitGroup
		for i := range k.w {
			stream := k.ring(i)
			inside.Go(func() {
				for {
					err := stream.ForEach(func(ev Event) error {
						if k.freed.Load() != 0 {
							t.Error("freed while an event is in use")
						}
						id(t, ev)
						return nil
					})
					k.all()[i].Used()
					if err != nil {
						if err != os.ErrClosed {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		for range 2 {
			inside.Go(func() { k.Close(); k.Stats() })
		}
		inside.Wait()
		// Used and Stats must not block, so the memory may go a moment after the last of them has
		// left.
		for k.freed.Load() == 0 {
			runtime.Gosched()
		}
		require.Equal(t, int32(1), k.freed.Load())
	}
}

// A pass or a Resume that entered before Close changes entries just as Close empties them: it puts
// none back. A later Resume is refused.
func TestCloseLeavesNoEntry(t *testing.T) {
	for name, meanwhile := range map[string]func(k *belled){
		"a pass": func(*belled) {},
		// It has entered
		"resume":           func(k *belled) { require.NoError(t, k.in.Entries.Resume()) },
		"resume, too late": func(k *belled) { require.Equal(t, os.ErrClosed, k.Resume()) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newBelled(t, 2)
			require.True(t, k.in.Entries.Arm(0))
			k.requireEntries(bellEntry, plainEntry)
			if name != "a pass" {
				require.NoError(t, k.Pause())
			}
			k.output(0, 1)
			inside, goOn, done := make(chan bool), make(chan bool), make(chan error)
			go func() {
				done <- k.unordered().ForEach(func(Event) error { inside <- true; <-goOn; return nil })
			}()
			<-inside
			k.hooks.unhook = func() error {
				for i := range k.all() {
					require.NoError(t, k.store(i, noEntry))
				}
				meanwhile(k)
				close(goOn)
				require.Equal(t, os.ErrClosed, <-done)
				k.requireEntries(noEntry, noEntry)
				return nil
			}
			require.NoError(t, k.Close())
			k.requireEntries(noEntry, noEntry)
		})
	}
}

// Of a stream that is closed, or closed before the rest is delivered, Shutdown drops nothing: the
// Reader is open.
func TestShutdownOfAClosedStream(t *testing.T) {
	for name, late := range map[string]bool{"before": false, "during": true} {
		t.Run(name, func(t *testing.T) {
			k := newBelled(t, 2)
			k.programs = &fakePrograms{}
			s, closed := k.stream(), make(chan struct{})
			end := sync.OnceValue(func() error {
				defer close(closed)
				return s.Close()
			})
			if late {
				k.programs.opened = end
			} else {
				end()
			}
			k.output(0, 10, 11, 12)
			require.Equal(t, os.ErrClosed, s.Shutdown(t.Context(), never))
			<-closed // it gives the rings back
			require.Zero(t, k.freed.Load())
			if late {
				k.requireEntries(noEntry, noEntry)
				require.NoError(t, k.Resume())
			}
			k.requireEntries(plainEntry, plainEntry)
			require.Equal(t, []uint64{10, 11, 12}, ids(t, k.unordered()))
			require.NoError(t, k.unordered().Shutdown(t.Context(), never))
			require.Zero(t, k.Stats().Total().Dropped)
		})
	}
}

// While the stream is used, the Reader stays open. An ErrBusy of the function is the function's
// error: it is closed.
func TestShutdownAndErrBusy(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newBelled(t, 2)
			k.programs = &fakePrograms{}
			s := source(k.fake)
			k.output(0, 10, 11, 12)
			if name == "ring" {
				err := s.Shutdown(t.Context(), never)
				require.ErrorContains(t, err, "this is a Stream of one ring: call Reader.Pause")
				require.Zero(t, k.freed.Load())
				k.requireEntries(plainEntry, plainEntry)
				return
			}
			require.NoError(t, s.ForEach(func(Event) error {
				require.ErrorIs(t, s.Shutdown(t.Context(), never), ErrBusy)
				return ErrStop
			}))
			require.Zero(t, k.freed.Load())
			mine := fmt.Errorf("mine: %w", ErrBusy)
			require.Equal(t, mine, s.Shutdown(t.Context(), func(Event) error { return mine }))
			require.Equal(t, int32(1), k.freed.Load())
		})
	}
}

// refuses lets changes of one ring's entry fail until the function that it returns is called.
func (k *belled) refuses(ring int) (relent func()) {
	k.set = func(i int, _ kernel.Entry) error {
		if i == ring {
			return syscall.EPERM
		}
		return nil
	}
	return func() { k.set = nil }
}

// While an entry is still to be emptied, Pause is not nil, and tries again.
func TestPauseAfterAPauseThatFailed(t *testing.T) {
	k := newBelled(t, 3)
	relent := k.refuses(1)
	for range 3 {
		require.ErrorIs(t, k.Pause(), syscall.EPERM)
		k.requireEntries(noEntry, plainEntry, noEntry)
		require.ErrorIs(t, k.Stats().Doorbell.Err, syscall.EPERM)
	}
	relent()
	require.NoError(t, k.Pause())
	k.requireEntries(noEntry, noEntry, noEntry)
	require.NoError(t, k.Stats().Doorbell.Err)

	_, sets := k.entriesNow()
	require.NoError(t, k.Pause())
	_, after := k.entriesNow()
	require.Equal(t, sets, after, "there is nothing left to do")
	require.NoError(t, k.Resume())
	k.requireEntries(plainEntry, plainEntry, plainEntry)
}

// A Resume that fails has put some rings back: the next Pause takes them out.
func TestPauseAfterAResumeThatFailed(t *testing.T) {
	k := newBelled(t, 3)
	require.NoError(t, k.Pause())
	relent := k.refuses(1)
	for range 2 {
		require.ErrorIs(t, k.Resume(), syscall.EPERM)
		k.requireEntries(plainEntry, noEntry, plainEntry)
	}
	relent()
	require.NoError(t, k.Pause())
	k.requireEntries(noEntry, noEntry, noEntry)
	require.NoError(t, k.Resume())
	k.requireEntries(plainEntry, plainEntry, plainEntry)
	require.NoError(t, k.Stats().Doorbell.Err)
}

// What could be resumed is: a CPU that comes back meanwhile gets its ring back.
func TestResumeThatFailedInPart(t *testing.T) {
	k := newPluggable(t, 2)
	require.NoError(t, k.Pause())
	k.refuses(1)
	require.ErrorIs(t, k.Resume(), syscall.EPERM)
	k.dead[0] = true
	_, before := k.entriesNow()
	require.NoError(t, k.in.Hotplug.Replug())
	_, after := k.entriesNow()
	require.Equal(t, before+1, after)
	k.requireEntries(plainEntry, noEntry)
}

// Shutdown promises that outputs have ended when it calls f.
func TestShutdownAfterAPauseThatFailed(t *testing.T) {
	k := newBelled(t, 2)
	k.programs = &fakePrograms{}
	relent := k.refuses(0)
	require.ErrorIs(t, k.Pause(), syscall.EPERM)
	require.NoError(t, k.emit(0, 1), "it still lands")
	require.ErrorIs(t, k.unordered().Shutdown(t.Context(), never), syscall.EPERM)
	require.Equal(t, []uint64{1}, ids(t, k.unordered()), "the reader is still open")

	require.NoError(t, k.emit(0, 2))
	relent()
	require.NoError(t, k.unordered().Shutdown(t.Context(), func(Event) error {
		require.Equal(t, syscall.ENOENT, k.emit(0, 3))
		return nil
	}))
	require.EqualValues(t, 2, k.Stats().Rings[0].Samples)
	require.Equal(t, os.ErrClosed, k.Pause())
}

// A Pause that succeeds says nothing of rings that could not be armed.
func TestPauseKeepsTheErrorOfArming(t *testing.T) {
	k := newBelled(t, 1)
	k.in.Entries.Fail(errTest)
	relent := k.refuses(0)
	require.ErrorIs(t, k.Pause(), syscall.EPERM)
	relent()
	require.NoError(t, k.Pause())
	require.ErrorIs(t, k.Stats().Doorbell.Err, errTest)
}

// Stats say which entries Close could not take out of the map, in logs too.
func TestCloseSaysWhatStaysInTheMap(t *testing.T) {
	for want, text := range map[error]string{errTest: `"CloseErr":"of the test"`, nil: `"CloseErr":null`} {
		k := newBelled(t, 2)
		k.hooks.unhook = func() error { return want }
		require.NoError(t, k.Stats().CloseErr)
		require.NoError(t, k.Close())
		require.ErrorIs(t, k.Stats().CloseErr, want)
		logged, err := json.Marshal(k.Stats())
		require.NoError(t, err)
		require.Contains(t, string(logged), text)
	}
}
