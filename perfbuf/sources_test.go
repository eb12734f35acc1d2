package perfbuf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// twoReaders are two readers of one simulated kernel's clock.
func twoReaders(t *testing.T) (a, b *fake) {
	a, b = newFake(t, 2, Options{Name: "a"}), newFake(t, 1, Options{Name: "b", RingBytes: 2 * fakeRingSize})
	b.hooks.clock = a.clock.Load
	return a, b
}

// Events of several readers come in one order, and say whose they are. Each reader counts its own.
func TestMergeReaders(t *testing.T) {
	a, b := twoReaders(t)
	a.output(0, 10, 40)
	a.output(1, 20)
	b.output(0, 15, 30, 50)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader, b.Reader)
	require.NoError(t, err)
	var ids []uint64
	var from []string
	require.NoError(t, s.ForEach(func(ev Event) error {
		ids, from = append(ids, id(t, ev)), append(from, ev.Source())
		return nil
	}))
	require.Equal(t, []uint64{10, 15, 20, 30, 40, 50}, ids)
	require.Equal(t, []string{"a", "b", "a", "b", "a", "b"}, from)
	require.EqualValues(t, 3, a.Stats().Total().Samples)
	require.EqualValues(t, 3, b.Stats().Total().Samples)
	requireHeld(t, a)
	require.NoError(t, s.Close())
	requireFree(t, a.Reader)
	requireFree(t, b.Reader)
}

// A reader that is taken out is free at once, and one that comes in later is read from then on.
func TestAddAndRemove(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader)
	require.NoError(t, err)
	b.output(0, 5)
	require.NoError(t, s.Add(b.Reader))
	a.output(0, 10)
	require.Equal(t, []uint64{5, 10}, ids(t, s))
	a.output(0, 20)
	require.NoError(t, s.Remove(a.Reader))
	require.ErrorContains(t, s.Remove(a.Reader), "not a source")
	require.Equal(t, errNilReader, s.Remove(nil))
	require.Equal(t, errNilReader, s.Add(nil))
	_, err = Merge(StreamOptions{}, b.Reader, nil)
	require.Equal(t, errNilReader, err)
	require.Equal(t, []uint64{20}, ids(t, a.unordered()), "it had not been seen")
	b.output(0, 30)
	require.Equal(t, []uint64{30}, ids(t, s))
	require.NoError(t, s.Remove(b.Reader))
	require.Empty(t, ids(t, s), "without sources nothing comes")
	require.NoError(t, s.Close())
	require.Equal(t, os.ErrClosed, s.Add(a.Reader))
	require.NoError(t, a.unordered().ForEach(never), "it is not claimed")
}

// What a wait is for changes with the sources, while it waits.
func TestWaitForSeveralReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := twoReaders(t)
		s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader)
		require.NoError(t, err)
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		blocked(t, done)
		require.NoError(t, s.Add(b.Reader))
		blocked(t, done)
		b.output(0, 1)
		b.poll.wake()
		require.NoError(t, <-done)
		require.Equal(t, []uint64{1}, ids(t, s))

		done = waitInBackground(func() error { return s.Wait(t.Context()) })
		a.output(0, 2)
		a.poll.wake()
		require.NoError(t, <-done)
		require.Equal(t, []uint64{2}, ids(t, s))

		done = waitInBackground(func() error { return s.Wait(t.Context()) })
		require.NoError(t, s.Remove(a.Reader))
		blocked(t, done)
		wakes := b.Stats().Wakes
		a.poll.wake()
		blocked(t, done)
		require.Equal(t, wakes, b.Stats().Wakes, "it is no source")
		require.NoError(t, s.Remove(b.Reader))
		blocked(t, done)
		require.NoError(t, s.Add(b.Reader))
		b.output(0, 3)
		b.poll.wake()
		require.NoError(t, <-done)

		done = waitInBackground(func() error { return s.Wait(t.Context()) })
		require.NoError(t, <-done, "what is held")
		require.Equal(t, []uint64{3}, ids(t, s))
		done = waitInBackground(func() error { return s.Wait(t.Context()) })
		require.NoError(t, s.Add(a.Reader))
		blocked(t, done)
		require.NoError(t, a.Close())
		require.Equal(t, os.ErrClosed, <-done, "a source's end is the stream's")
		require.NoError(t, s.Close())
		requireFree(t, b.Reader)
		<-a.Done()
	})
}

// One marker answers all flushes, of all sources together.
func TestFlushOfSeveralReaders(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(time.Millisecond)}, a.Reader, b.Reader)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, s.Flush())
	}
	a.clock.Add(2e6)
	recs := copies(t, s)
	require.Len(t, recs, 1)
	require.Equal(t, KindFlushed, recs[0].Kind)
	require.Empty(t, copies(t, s))
}

func TestMergeRefuses(t *testing.T) {
	a, b := twoReaders(t)
	c := newFake(t, 1, Options{NoTime: true})
	for want, readers := range map[string][]*Reader{
		"no readers":                 nil,
		"is passed twice":            {a.Reader, b.Reader, a.Reader},
		"opened with Options.NoTime": {a.Reader, c.Reader},
	} {
		_, err := Merge(StreamOptions{Order: Slack(0)}, readers...)
		require.ErrorContains(t, err, want)
		requireFree(t, a.Reader)
		requireFree(t, b.Reader)
	}
	s := a.slack(1)
	_, err := Merge(StreamOptions{Order: Slack(0)}, b.Reader, a.Reader)
	require.ErrorIs(t, err, ErrBusy)
	requireFree(t, b.Reader)
	require.NoError(t, s.Close())
	require.NoError(t, b.Close())
	_, err = Merge(StreamOptions{Order: Slack(0)}, a.Reader, b.Reader)
	require.Equal(t, os.ErrClosed, err)
	requireFree(t, a.Reader)
}

// Readers may come, go and be closed in the middle of a pass. It is the next that sees them.
func TestSourcesChangeWithinAPass(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader)
	require.NoError(t, err)
	a.output(0, 1, 2)
	b.output(0, 3)
	n := 0
	require.NoError(t, s.ForEach(func(Event) error {
		if n++; n == 1 {
			require.NoError(t, s.Add(b.Reader))
			requireHeld(t, b)
			require.Error(t, s.Add(b.Reader))
		}
		return nil
	}))
	require.Equal(t, 2, n)
	require.Equal(t, []uint64{3}, ids(t, s))
	a.output(0, 4, 5)
	n = 0
	require.NoError(t, s.ForEach(func(Event) error {
		if n++; n == 1 {
			require.NoError(t, s.Remove(a.Reader))
			requireHeld(t, a)
		}
		return nil
	}))
	require.Equal(t, 2, n)
	requireFree(t, a.Reader)
	b.output(0, 6)
	require.Equal(t, []uint64{6}, ids(t, s))

	b.output(0, 7)
	require.Equal(t, os.ErrClosed, s.ForEach(func(Event) error {
		require.NoError(t, s.Add(a.Reader))
		require.NoError(t, a.Close()) // before the stream has taken it in
		require.Equal(t, int32(1), a.freed.Load())
		a.hooks.memory = nil
		return nil
	}))
	require.Equal(t, os.ErrClosed, s.ForEach(never))
	require.NoError(t, s.Close())
	requireFree(t, b.Reader)
}

// A source that cannot be paused is let pass, as a BPF ring buffer; one of which that fails is not,
// and all stay open.
func TestShutdownNeedsPause(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader, b.Reader)
	require.NoError(t, err)
	a.hooks.set = func(int, kernel.Entry) error { return errors.ErrUnsupported }
	b.hooks.set = func(int, kernel.Entry) error { return errTest }
	require.ErrorIs(t, s.Shutdown(t.Context(), never), errTest)
	require.NoError(t, s.ForEach(never), "it is open")
}

// A removed reader may be closed at once, whichever source it was and while the stream is used: the
// stream goes on with the rest, and does not touch the reader being freed.
func TestRemoveThenClose(t *testing.T) {
	retire := func(t *testing.T, s *Stream, k *fake) {
		require.NoError(t, s.Remove(k.Reader))
		require.NoError(t, k.Close())
		require.ErrorContains(t, s.Remove(k.Reader), "not a source")
	}
	within := func(t *testing.T, s *Stream, k *fake) {
		k.programs = &fakePrograms{opened: func() error { time.Sleep(time.Millisecond); return nil }}
		once, start := false, time.Now()
		require.NoError(t, s.ForEach(func(Event) error {
			if !once {
				retire(t, s, k)
				require.Zero(t, k.freed.Load(), "the pass still reads it")
			}
			once = true
			return nil
		}))
		require.True(t, once)
		require.Equal(t, start, time.Now(), "the end of a reader takes its time, and the stream goes on")
		<-k.Done()
	}
	waiting := func(t *testing.T, s *Stream, k *fake) {
		ids(t, s)
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		blocked(t, done)
		retire(t, s, k)
		blocked(t, done)
		<-k.Done()
		require.NoError(t, s.Flush())
		require.NoError(t, <-done)
	}
	idle := func(t *testing.T, s *Stream, k *fake) {
		retire(t, s, k)
		require.EqualValues(t, 1, k.freed.Load())
	}
	for how, retire := range map[string]func(*testing.T, *Stream, *fake){"within a pass": within, "while one waits": waiting, "idle": idle} {
		for left := range 3 {
			runInBubble(t, fmt.Sprintf("%s, %d is left", how, left), func(t *testing.T) {
				a, b := twoReaders(t)
				c, _ := twoReaders(t)
				all := []*fake{a, b, c}
				s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader, b.Reader, c.Reader)
				require.NoError(t, err)
				for i := range uint64(3) {
					all[i].output(0, 1+i)
				}
				for i, k := range all {
					if i == left {
						continue
					}
					k.output(0, 10)
					retire(t, s, k)
				}
				last := all[left]
				last.output(0, 20)
				done := waitInBackground(func() error { return s.Wait(t.Context()) })
				require.NoError(t, <-done)
				require.Contains(t, ids(t, s), uint64(20))
				require.NoError(t, s.Remove(last.Reader))
				last.output(0, 30)
				require.Equal(t, []uint64{30}, ids(t, last.unordered()), "given back")
				require.NoError(t, s.Close())
			})
		}
	}
}

// Adding and removing sources does not disturb the stream's user.
func TestChangesBesideTheUser(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader)
	require.NoError(t, err)
	var done atomic.Bool
	go func() {
		defer done.Store(true)
		for range 2000 {
			if err := errors.Join(s.Add(b.Reader), s.Remove(b.Reader)); err != nil {
				t.Error(err)
			}
			for b.in.Rings.Held() { // until the pass or wait that is under way ends
				runtime.Gosched()
			}
		}
	}()
	for !done.Load() {
		require.NoError(t, s.ForEach(never))
		require.NoError(t, s.Flush())
		require.NoError(t, s.Run(t.Context(), func(Event) error { return ErrStop }))
	}
}

// A reader that cannot be waited for together with the others is refused. It is as it was, and so
// are the stream and its barrier.
func TestAddThatFails(t *testing.T) {
	a, b := newFake(t, 1, Options{}), newFake(t, 1, Options{Time: PayloadTime(0)})
	b.programs = &fakePrograms{}
	s, barrier := a.stepped(5_000_000, StreamOptions{})
	a.hooks.group = func() (kernel.Group, error) { return nil, errTest }
	require.ErrorIs(t, s.Add(b.Reader), errTest)
	requireFree(t, b.Reader)
	require.Equal(t, b.programs.opens.Load(), b.programs.closes.Load())
	a.output(0, 1)
	require.NoError(t, barrier.Round(), "it is still in use")
	require.Equal(t, []uint64{1}, ids(t, s))
	require.Zero(t, a.programs.closes.Load())
	a.hooks.group = nil
	require.NoError(t, s.Add(b.Reader))
	require.EqualValues(t, 1, a.programs.closes.Load(), "b's covers both")
}

// The marker that answers a stream's Flush comes, whichever sources go, also if none is left.
func TestFlushWhileSourcesGo(t *testing.T) {
	for name, remove := range map[string]func(s *Stream, a, b *fake) error{
		"the first": func(s *Stream, a, _ *fake) error { return s.Remove(a.Reader) },
		"the last":  func(s *Stream, _, b *fake) error { return s.Remove(b.Reader) },
		"all": func(s *Stream, a, b *fake) error {
			s.Remove(a.Reader)
			return s.Remove(b.Reader)
		},
	} {
		for _, mode := range []Order{{}, Slack(time.Millisecond)} {
			for _, waits := range []bool{false, true} {
				runInBubble(t, name+", "+mode.String(), func(t *testing.T) {
					a, b := twoReaders(t)
					a.programs = &fakePrograms{}
					start := time.Now()
					clock := func() uint64 { return uint64(time.Hour + time.Since(start)) }
					a.hooks.clock, b.hooks.clock = clock, clock
					s, err := Merge(StreamOptions{Order: mode}, a.Reader, b.Reader)
					require.NoError(t, err)
					done := make(<-chan error)
					if waits {
						done = waitInBackground(func() error { return s.Wait(t.Context()) })
						blocked(t, done)
					}
					at := clock()
					require.NoError(t, s.Flush())
					require.NoError(t, remove(s, a, b))
					if !waits {
						done = waitInBackground(func() error { return s.Wait(t.Context()) })
					}
					require.NoError(t, <-done)
					recs := copies(t, s)
					require.Len(t, recs, 1)
					require.Equal(t, KindFlushed, recs[0].Kind)
					require.GreaterOrEqual(t, recs[0].Time, at)
					require.Empty(t, copies(t, s))
					for _, k := range []*fake{a, b} {
						if !k.in.Rings.Held() {
							require.Empty(t, copies(t, k.unordered()))
						}
					}
					require.NoError(t, s.Flush(), "it needs no source")
					require.NoError(t, s.Wait(t.Context()))
					require.Len(t, copies(t, s), 1)
					require.NoError(t, s.Close())
					require.Equal(t, os.ErrClosed, s.Flush())
				})
			}
		}
	}
}

// A stream without sources delivers the markers that its options ask for, and ends as any other.
func TestStreamWithoutSources(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *Stream) error{
		"Close":    func(_ *testing.T, s *Stream) error { return s.Close() },
		"Shutdown": func(t *testing.T, s *Stream) error { return s.Shutdown(t.Context(), never) },
	} {
		runInBubble(t, name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			k.programs = &fakePrograms{}
			start := time.Now()
			k.hooks.clock = func() uint64 { return uint64(time.Hour + time.Since(start)) }
			s := k.open(StreamOptions{FlushEvery: time.Minute})
			require.NoError(t, s.Remove(k.Reader))
			for i := range 3 {
				require.NoError(t, s.Wait(t.Context()))
				require.InDelta(t, time.Duration(i+1)*time.Minute, time.Since(start), float64(time.Second))
				require.Len(t, copies(t, s), 1)
			}
			require.NoError(t, s.Drain(t.Context(), never))
			require.NoError(t, end(t, s))
			require.Equal(t, os.ErrClosed, s.Wait(t.Context()))
			require.Equal(t, os.ErrClosed, s.Add(k.Reader))
			requireFree(t, k.Reader)
		})
	}
}
