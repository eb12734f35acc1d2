package perfbuf

import (
	"context"
	"os"
	"runtime"
	"sync"
	"testing"

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
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 2, Options{})
			src := source(k)
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
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			src := source(k)
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
			stream := StreamOf(t, k.all()[i])
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
