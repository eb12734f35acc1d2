package perfbuf

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// endings are the ways in which a pass ends. Each calls f, and gives up when
// that returns false.
var endings = map[string]func(t *testing.T, src *Stream, f func(Event) bool){
	"ErrStop": func(t *testing.T, src *Stream, f func(Event) bool) {
		n, err := Fold(src, 0, func(n int, ev Event) (int, error) {
			if !f(ev) {
				return n + 1, ErrStop
			}
			return n + 1, nil
		})
		require.NoError(t, err)
		require.Equal(t, 3, n)
	},
	"error": func(t *testing.T, src *Stream, f func(Event) bool) {
		n, err := Fold(src, 0, func(n int, ev Event) (int, error) {
			if !f(ev) {
				return 99, errTest
			}
			return n + 1, nil
		})
		require.Equal(t, errTest, err)
		require.Equal(t, 99, n, "what f returned with the error")
	},
	"ForEach and ErrStop": func(t *testing.T, src *Stream, f func(Event) bool) {
		require.NoError(t, src.ForEach(func(ev Event) error {
			if !f(ev) {
				return ErrStop
			}
			return nil
		}))
	},
	"ForEach and error": func(t *testing.T, src *Stream, f func(Event) bool) {
		require.Equal(t, errTest, src.ForEach(func(ev Event) error {
			if !f(ev) {
				return errTest
			}
			return nil
		}))
	},
	"panic": func(t *testing.T, src *Stream, f func(Event) bool) {
		require.PanicsWithError(t, errTest.Error(), func() {
			Fold(src, 0, func(_ int, ev Event) (int, error) {
				if !f(ev) {
					panic(errTest)
				}
				return 0, nil
			})
		})
	},
	"panic in ForEach": func(t *testing.T, src *Stream, f func(Event) bool) {
		require.PanicsWithError(t, errTest.Error(), func() {
			src.ForEach(func(ev Event) error {
				if !f(ev) {
					panic(errTest)
				}
				return nil
			})
		})
	},
	"panic in a loop over a batch": func(t *testing.T, src *Stream, f func(Event) bool) {
		require.PanicsWithError(t, errTest.Error(), func() {
			src.ForEachBatch(func(b *Batch) error {
				for ev := range b.Events() {
					if !f(ev) {
						panic(errTest)
					}
				}
				return nil
			})
		})
	},
	"Goexit": func(t *testing.T, src *Stream, f func(Event) bool) {
		done := make(chan bool)
		go func() {
			defer close(done)
			Fold(src, 0, func(_ int, ev Event) (int, error) {
				if !f(ev) {
					runtime.Goexit()
				}
				return 0, nil
			})
			done <- true
		}()
		require.False(t, <-done, "Fold returned")
	},
	"Goexit in ForEach": func(t *testing.T, src *Stream, f func(Event) bool) {
		done := make(chan bool)
		go func() {
			defer close(done)
			src.ForEach(func(ev Event) error {
				if !f(ev) {
					runtime.Goexit()
				}
				return nil
			})
			done <- true
		}()
		require.False(t, <-done, "ForEach returned")
	},
	"break": func(t *testing.T, src *Stream, f func(Event) bool) {
		for ev, err := range src.Events(t.Context()) {
			require.NoError(t, err)
			if !f(ev) {
				break
			}
		}
	},
	"panic in a loop's body": func(t *testing.T, src *Stream, f func(Event) bool) {
		require.PanicsWithError(t, errTest.Error(), func() {
			for ev := range src.Events(t.Context()) {
				if !f(ev) {
					panic(errTest)
				}
			}
		})
	},
}

// However a pass ends, it consumes exactly the events it handed out, by one store of the tail. The
// source can be read again.
func TestEndingsConsumeWhatWasHandedOut(t *testing.T) {
	for name, source := range sourceKinds {
		for ending, run := range endings {
			t.Run(name+" "+ending, func(t *testing.T) {
				k := newFake(t, 1, Options{})
				src := source(k)
				k.output(0, seq(1, 6)...)
				var got []uint64
				run(t, src, func(ev Event) bool {
					require.Zero(t, k.w[0].Tail(), "stored during the pass")
					got = append(got, id(t, ev))
					return len(got) < 3
				})
				require.Equal(t, seq(1, 3), got)
				require.Equal(t, uint64(3*recordSize), k.w[0].Tail())
				s := k.Stats().Rings[0]
				require.Equal(t, uint64(1), s.TailStores)
				require.Equal(t, uint64(3), s.Samples)
				require.Equal(t, uint64(3*recordSize), s.Bytes)

				require.Equal(t, seq(4, 6), ids(t, src))
				require.Equal(t, k.w[0].Head(), k.w[0].Tail())
				require.Equal(t, uint64(2), k.Stats().Rings[0].TailStores)
				require.Empty(t, ids(t, src))
				require.Equal(t, uint64(2), k.Stats().Rings[0].TailStores, "nothing to store")
			})
		}
	}
}

func TestFoldCarriesTheAccumulator(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			src := source(k)
			k.output(0, 1, 2, 3, 4)
			sum, err := Fold(src, uint64(100), func(sum uint64, ev Event) (uint64, error) { return 10*sum + ev.Time(), nil })
			require.NoError(t, err)
			require.Equal(t, uint64(1001234), sum)
			sum, err = Fold(src, uint64(7), func(uint64, Event) (uint64, error) { return 0, nil })
			require.NoError(t, err)
			require.Equal(t, uint64(7), sum, "nothing to fold")
		})
	}
}

// Events that f causes itself wait for the next call, or a program that traces itself would never
// come to an end.
func TestHeadIsLoadedOnce(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			src := source(k)
			k.output(0, 1, 2, 3)
			n, err := Fold(src, 0, func(n int, ev Event) (int, error) {
				k.output(0, 100+uint64(n))
				return n + 1, nil
			})
			require.NoError(t, err)
			require.Equal(t, 3, n)
			require.Equal(t, seq(100, 102), ids(t, src))
		})
	}
}

// A pass over all rings reads the events that were there when it began.
func TestReaderReadsWhatWasThereAtTheBeginning(t *testing.T) {
	k := newFake(t, 3, Options{})
	k.output(0, 1, 2)
	k.output(1, 3)
	first := true
	var got []uint64
	require.NoError(t, k.unordered().ForEach(func(ev Event) error {
		if first {
			k.output(0, 10)
			k.output(1, 11)
			k.output(2, 12)
			first = false
		}
		got = append(got, id(t, ev))
		return nil
	}))
	require.Equal(t, []uint64{1, 2, 3}, got)
	require.ElementsMatch(t, []uint64{10, 11, 12}, ids(t, k.unordered()))
}

func TestFullestRingComesFirst(t *testing.T) {
	k := newFake(t, 4, Options{})
	k.output(0, 1)
	k.output(1, 2, 3, 4)
	k.output(2, 5, 6)
	k.output(3, 7, 8)
	require.Equal(t, []uint64{2, 3, 4, 5, 6, 7, 8, 1}, ids(t, k.unordered()), "of equally full ones the lower CPU's")
	k.output(3, 9)
	require.Equal(t, []uint64{9}, ids(t, k.unordered()))
	require.Equal(t, uint64(2), k.Stats().Passes)
}
