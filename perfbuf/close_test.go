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

// f may close the reader: what it has stays valid, the pass ends before the
// next event, and only then the memory goes.
func TestCloseWithinAPass(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 2, Options{})
			src := source(k)
			k.output(0, 1, 2, 3)
			k.output(1, 4)
			n := 0
			err := forEach(src, func(ev Event) error {
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

// The result of f goes before the closing.
func TestCloseAndStopWithinAPass(t *testing.T) {
	for want, result := range map[error]error{nil: ErrStop, errTest: errTest} {
		k := newFake(t, 1, Options{})
		k.output(0, 1, 2)
		require.Equal(t, want, k.ForEach(func(Event) error {
			k.Close()
			return result
		}))
		require.Equal(t, int32(1), k.freed.Load())
	}
}

func TestEverythingAfterCloseIsErrClosed(t *testing.T) {
	k := newFake(t, 2, Options{CPUs: []int{10, 11}})
	k.output(0, 1, 2)
	stream := k.stream()
	k.Close()
	ring := k.Rings()[0]
	canceled, cancel := context.WithCancel(context.Background())
	cancel()

	for name, call := range map[string]func() error{
		"Fold of a ring": func() error { _, err := Fold(ring, 0, func(int, Event) (int, error) { panic("called") }); return err },
		"Fold of a reader": func() error {
			_, err := Fold(k.Reader, 0, func(int, Event) (int, error) { panic("called") })
			return err
		},
		"Fold of a stream":       func() error { _, err := Fold(stream, 0, func(int, Event) (int, error) { panic("called") }); return err },
		"Ring.ForEach":           func() error { return ring.ForEach(never) },
		"Ring.Events":            func() error { return only(t, ring.Events(t.Context())) },
		"Ring.Records":           func() error { return only(t, ring.Records(t.Context())) },
		"Reader.ForEach":         func() error { return k.ForEach(never) },
		"Reader.Run":             func() error { return k.Run(t.Context(), never) },
		"Reader.Events":          func() error { return only(t, k.Events(t.Context())) },
		"Reader.Records":         func() error { return only(t, k.Records(t.Context())) },
		"Reader.Wait":            func() error { return k.Wait(t.Context()) },
		"Reader.Stream":          func() error { _, err := k.Stream(StreamOptions{}); return err },
		"Stream.ForEach":         func() error { return stream.ForEach(never) },
		"Stream.ForEachPending":  func() error { return stream.ForEachPending(never) },
		"Stream.Run":             func() error { return stream.Run(t.Context(), never) },
		"Stream.Events":          func() error { return only(t, stream.Events(t.Context())) },
		"Stream.Records":         func() error { return only(t, stream.Records(t.Context())) },
		"Stream.Wait":            func() error { return stream.Wait(t.Context()) },
		"Stream.ForEach, closed": func() error { stream.Close(); return stream.ForEach(never) },
	} {
		require.Equal(t, os.ErrClosed, call(), name)
	}
	// A context that is done goes before that.
	require.Equal(t, context.Canceled, k.Wait(canceled))
	require.Equal(t, context.Canceled, k.Run(canceled, never))
	require.Equal(t, context.Canceled, stream.Wait(canceled))

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
				result <- forEach(src, func(ev Event) error {
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
			inside.Go(func() {
				for {
					err := k.all()[i].ForEach(func(ev Event) error {
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
		// Used and Stats must not block, so the memory may go a moment after the last of them has left.
		for k.freed.Load() == 0 {
			runtime.Gosched()
		}
		require.Equal(t, int32(1), k.freed.Load())
	}
}
