package perfbuf

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Everything that would read what a pass is reading is refused, from the
// function that events are handed to and from other goroutines. Nothing is lost by it.
func TestBusy(t *testing.T) {
	ring := func(k *fake, _ *Stream) error { return k.all()[0].ForEach(never) }
	fold := func(k *fake, _ *Stream) error {
		n, err := Fold(k.all()[0], 5, func(int, Event) (int, error) { panic("called") })
		require.Equal(k.t, 5, n)
		return err
	}
	iterate := func(k *fake, _ *Stream) (last error) {
		for ev, err := range k.all()[0].Events(k.t.Context()) {
			require.Equal(k.t, Event{}, ev)
			last = err
		}
		return last
	}
	reader := func(k *fake, _ *Stream) error { return k.ForEach(never) }
	run := func(k *fake, _ *Stream) error { return k.Run(k.t.Context(), never) }
	order := func(k *fake, _ *Stream) error { _, err := k.Stream(StreamOptions{}); return err }
	stream := func(k *fake, s *Stream) error { return s.ForEach(never) }
	flush := func(k *fake, s *Stream) error { return s.ForEachPending(never) }
	wait := func(k *fake, s *Stream) error { return s.Wait(k.t.Context()) }

	for name, c := range map[string]struct {
		source string
		inner  []func(k *fake, s *Stream) error
	}{
		"in a ring's pass":    {"ring", []func(*fake, *Stream) error{ring, fold, iterate, reader, run, order}},
		"in a reader's pass":  {"reader", []func(*fake, *Stream) error{ring, fold, iterate, reader, run, order}},
		"in a stream's round": {"ordered", []func(*fake, *Stream) error{ring, fold, iterate, reader, run, order, stream, flush, wait}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			src := sourceKinds[c.source](k)
			s, _ := src.(*Stream)
			k.output(0, 1, 2, 3)
			var got []uint64
			require.NoError(t, forEach(src, func(ev Event) error {
				for i, inner := range c.inner {
					require.ErrorIs(t, inner(k, s), ErrBusy, "call %d, within f", i)
					from := make(chan error)
					go func() { from <- inner(k, s) }()
					require.ErrorIs(t, <-from, ErrBusy, "call %d, from another goroutine", i)
				}
				got = append(got, id(t, ev))
				return nil
			}))
			require.Equal(t, seq(1, 3), got)
			k.output(0, 4)
			require.Equal(t, []uint64{4}, ids(t, src), "nothing is left claimed")
			require.Equal(t, k.w[0].Head(), k.w[0].Tail())
		})
	}
}

func never(Event) error { panic("called") }

// An open stream holds its rings between rounds too, and says so.
func TestOpenStreamHoldsItsRings(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.stream()
	require.ErrorIs(t, k.ForEach(never), ErrBusy, "said of empty rings too")
	require.ErrorIs(t, k.Wait(t.Context()), ErrBusy)
	require.ErrorIs(t, k.Run(t.Context(), never), ErrBusy)
	k.output(1, 1)
	require.ErrorContains(t, k.all()[1].ForEach(never), "Stream holds all rings")
	require.ErrorIs(t, k.ForEach(never), ErrBusy)
	_, err := k.Stream(StreamOptions{})
	require.ErrorIs(t, err, ErrBusy)
	require.Equal(t, []uint64{1}, ids(t, s))
	require.NoError(t, s.Close())
	k.output(1, 2)
	require.Equal(t, []uint64{2}, ids(t, k.Reader))
}

// A stream that cannot have all rings lets those go that it had.
func TestRefusedStreamHoldsNoRing(t *testing.T) {
	k := newFake(t, 3, Options{})
	k.output(2, 1)
	require.NoError(t, k.all()[2].ForEach(func(Event) error {
		_, err := k.Stream(StreamOptions{})
		require.ErrorIs(t, err, ErrBusy)
		k.output(0, 2)
		require.Equal(t, []uint64{2}, ids(t, k.all()[0]))
		return nil
	}))
	require.NoError(t, k.stream().Close())
}

// A reader's pass that comes to a ring that is being read ends there, with what it has seen consumed.
func TestReaderPassComesToABusyRing(t *testing.T) {
	k := newFake(t, 2, Options{})
	k.output(0, 1, 2) // the fuller one
	k.output(1, 3)
	require.NoError(t, k.all()[1].ForEach(func(ev Event) error {
		var got []uint64
		err := k.ForEach(func(ev Event) error {
			got = append(got, id(t, ev))
			return nil
		})
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorContains(t, err, "CPU 11")
		require.Equal(t, []uint64{1, 2}, got)
		require.Equal(t, uint64(3), id(t, ev), "the event that is being read is untouched")
		return nil
	}))
	k.output(0, 4)
	require.Equal(t, []uint64{4}, ids(t, k.Reader))
}

func TestRingsAreReadConcurrently(t *testing.T) {
	const rings, events = 4, 3000
	k := newFake(t, rings, Options{})
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() {
			next := uint64(1)
			for written := uint64(0); next <= events; {
				for written < min(events, next+50) {
					written++
					k.output(i, written)
				}
				if err := k.all()[i].ForEach(func(ev Event) error {
					if got := id(t, ev); got != next || ev.CPU() != firstCPU+i {
						t.Errorf("event %d of CPU %d where %d was due", got, ev.CPU(), next)
					}
					next++
					return nil
				}); err != nil {
					t.Error(err)
				}
				k.Stats()
			}
		})
	}
	wg.Wait()
	require.Equal(t, uint64(rings*events), k.Stats().Total().Samples)
}
