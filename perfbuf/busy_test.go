package perfbuf

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Everything that would use the stream that a pass is over is refused, and every other stream over
// its rings, from the function that events are handed to and from other goroutines. Nothing is lost
// by it.
func TestBusy(t *testing.T) {
	calls := map[string]func(k *fake, s *Stream) error{
		"ForEach":        func(_ *fake, s *Stream) error { return s.ForEach(never) },
		"ForEachPending": func(_ *fake, s *Stream) error { return s.ForEachPending(never) },
		"RunBatches": func(k *fake, s *Stream) error {
			return s.RunBatches(k.t.Context(), func(*Batch) error { panic("called") })
		},
		"Wait":  func(k *fake, s *Stream) error { return s.Wait(k.t.Context()) },
		"Drain": func(k *fake, s *Stream) error { return s.Drain(k.t.Context(), never) },
		"Fold": func(k *fake, s *Stream) error {
			n, err := Fold(s, 5, func(int, Event) (int, error) { panic("called") })
			require.Equal(k.t, 5, n)
			return err
		},
		"Events": func(k *fake, s *Stream) (last error) {
			for ev, err := range s.Events(k.t.Context()) {
				require.Equal(k.t, Event{}, ev)
				last = err
			}
			return last
		},
		"Ring.Stream":   func(k *fake, _ *Stream) error { _, err := k.all()[0].Stream(); return err },
		"Reader.Stream": func(k *fake, _ *Stream) error { _, err := k.Stream(StreamOptions{}); return err },
		"unordered":     func(k *fake, _ *Stream) error { _, err := k.Stream(StreamOptions{Order: Unordered()}); return err },
	}
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			k.programs = &fakePrograms{}
			src := source(k)
			k.output(0, 1, 2, 3)
			var got []uint64
			require.NoError(t, src.ForEach(func(ev Event) error {
				for call, inner := range calls {
					require.ErrorIs(t, inner(k, src), ErrBusy, "%s, within f", call)
					from := make(chan error)
					go func() { from <- inner(k, src) }()
					require.ErrorIs(t, <-from, ErrBusy, "%s, from another goroutine", call)
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

// An open stream holds its rings between passes too, and says so. They are free at its Close.
func TestOpenStreamHoldsItsRings(t *testing.T) {
	all := func(k *fake) (*Stream, error) { return k.Stream(StreamOptions{Order: Unordered()}) }
	one := func(ring int) func(k *fake) (*Stream, error) {
		return func(k *fake) (*Stream, error) { return k.all()[ring].Stream() }
	}
	order := func(k *fake) (*Stream, error) { return k.Stream(StreamOptions{Order: Slack(0)}) }
	open := map[string]func(k *fake) (*Stream, error){"ordered": order, "unordered": all, "ring": one(1)}
	for first, open := range open {
		for second, c := range map[string]struct {
			open func(k *fake) (*Stream, error)
			says string
			free bool
		}{
			"ordered": {order, "", false}, "unordered": {all, "", false}, "the ring": {one(1), "", false}, "another ring": {one(0), "", first == "ring"},
		} {
			t.Run(first+", "+second, func(t *testing.T) {
				k := newFake(t, 2, Options{})
				s, err := open(k)
				require.NoError(t, err)
				other, err := c.open(k)
				if c.free {
					require.NoError(t, err)
					require.NoError(t, other.Close())
				} else {
					require.ErrorIs(t, err, ErrBusy)
				}
				switch {
				case err == nil:
				case first != "ring":
					require.ErrorContains(t, err, "a Stream holds all rings")
				default:
					require.ErrorContains(t, err, "CPU 11: a Stream holds this ring")
				}
				k.output(1, 1)
				require.Equal(t, []uint64{1}, ids(t, s))
				require.NoError(t, s.Close())
				other, err = c.open(k)
				require.NoError(t, err, "nothing is left claimed")
				k.output(1, 2)
				if second != "another ring" {
					require.Equal(t, []uint64{2}, ids(t, other))
				}
			})
		}
	}
}

// A stream that cannot have all rings lets those go that it had.
func TestRefusedStreamHoldsNoRing(t *testing.T) {
	k := newFake(t, 3, Options{})
	last, err := k.all()[2].Stream()
	require.NoError(t, err)
	_, err = k.Stream(StreamOptions{Order: Unordered()})
	require.ErrorIs(t, err, ErrBusy)
	k.output(0, 2)
	require.Equal(t, []uint64{2}, ids(t, StreamOf(t, k.all()[0])))
	require.NoError(t, last.Close())
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
				if err := StreamOf(t, k.all()[i]).ForEach(func(ev Event) error {
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
