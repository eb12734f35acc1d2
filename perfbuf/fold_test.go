package perfbuf

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/ringfold/ringfold/internal/ringtest"
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
	eachSource(t, 1, func(t *testing.T, k *fake, src *Stream) {
		k.output(0, 1, 2, 3, 4)
		sum, err := Fold(src, uint64(100), func(sum uint64, ev Event) (uint64, error) { return 10*sum + ev.Time(), nil })
		require.NoError(t, err)
		require.Equal(t, uint64(1001234), sum)
		sum, err = Fold(src, uint64(7), func(uint64, Event) (uint64, error) { return 0, nil })
		require.NoError(t, err)
		require.Equal(t, uint64(7), sum, "nothing to fold")
	})
}

// Events that f causes itself wait for the next call, or a program that traces itself would never
// come to an end.
func TestHeadIsLoadedOnce(t *testing.T) {
	eachSource(t, 1, func(t *testing.T, k *fake, src *Stream) {
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

// What waits is tried with the two sources that do: a reader, and a stream in which everything is
// due.
var waiterKinds = map[string]func(k *fake) runner{
	"unordered": func(k *fake) runner { return k.unordered() },
	"ordered":   func(k *fake) runner { return k.stream() },
}

type runner = *Stream

func forRunners(t *testing.T, test func(t *testing.T, k *fake, r runner)) {
	for name, source := range waiterKinds {
		runInBubble(t, name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			test(t, k, source(k))
		})
	}
}

func TestRunReadsEventsAsTheyCome(t *testing.T) {
	forRunners(t, func(t *testing.T, k *fake, r runner) {
		var got []uint64
		k.output(0, 1, 2)
		done := waitInBackground(func() error {
			return r.Run(t.Context(), func(ev Event) error {
				if got = append(got, id(t, ev)); len(got) == 5 {
					return ErrStop
				}
				return nil
			})
		})
		require.Equal(t, seq(1, 2), got)
		k.output(0, 3)
		k.poll.wake()
		blocked(t, done)
		require.Equal(t, seq(1, 3), got)
		k.output(0, 4, 5, 6)
		k.poll.wake()
		require.NoError(t, <-done, "ErrStop is no error")
		require.Equal(t, seq(1, 5), got)
		require.Equal(t, []uint64{6}, ids(t, r))
	})
}

func TestRunReturnsTheFunctionsError(t *testing.T) {
	forRunners(t, func(t *testing.T, k *fake, r runner) {
		k.output(0, 1, 2)
		require.Equal(t, errTest, r.Run(t.Context(), func(Event) error { return errTest }))
		require.Equal(t, []uint64{2}, ids(t, r))
	})
}

// A flood of events does not keep a context from being seen.
func TestRunEndsWithItsContext(t *testing.T) {
	forRunners(t, func(t *testing.T, k *fake, r runner) {
		k.output(0, 1, 2, 3)
		ctx, cancel := context.WithCancelCause(context.Background())
		n := 0
		require.Equal(t, errTest, r.Run(ctx, func(Event) error { n++; cancel(errTest); return nil }))
		require.Equal(t, 1, n)
		require.Equal(t, []uint64{2, 3}, ids(t, r))

		ctx, stop := context.WithCancel(context.Background())
		done := waitInBackground(func() error { return r.Run(ctx, never) })
		stop()
		require.Equal(t, context.Canceled, <-done)
	})
}

func TestRunEndsWithClose(t *testing.T) {
	forRunners(t, func(t *testing.T, k *fake, r runner) {
		done := waitInBackground(func() error { return r.Run(t.Context(), never) })
		k.Close()
		require.Equal(t, os.ErrClosed, <-done)
		require.Equal(t, int32(1), k.freed.Load())
	})
}

func TestEventsAndBreak(t *testing.T) {
	forRunners(t, func(t *testing.T, k *fake, r runner) {
		k.output(0, 1, 2, 3)
		for ev, err := range r.Events(t.Context()) {
			require.NoError(t, err)
			if id(t, ev) == 2 {
				break
			}
		}
		require.Equal(t, uint64(2*recordSize), k.w[0].Tail())
		require.PanicsWithError(t, errTest.Error(), func() {
			for range r.Events(t.Context()) {
				panic(errTest)
			}
		})
		require.Equal(t, uint64(3*recordSize), k.w[0].Tail())
		k.output(0, 4)
		require.Equal(t, []uint64{4}, ids(t, r), "nothing is left claimed")
	})
}

// The error that ends an iteration comes once, alone and last.
func TestEventsEndWithAnError(t *testing.T) {
	forRunners(t, func(t *testing.T, k *fake, r runner) {
		k.output(0, 1, 2)
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		var got []uint64
		var errs []error
		for ev, err := range r.Events(ctx) {
			if errs = append(errs, err); err != nil {
				require.Equal(t, Event{}, ev)
				continue
			}
			got = append(got, id(t, ev))
			if len(got) == 2 {
				cancel(errTest)
			}
		}
		require.Equal(t, seq(1, 2), got)
		require.Equal(t, []error{nil, nil, errTest}, errs)
	})
}

func TestRecordsMayBeKept(t *testing.T) {
	forRunners(t, func(t *testing.T, k *fake, r runner) {
		n := k.fill(0, 1)
		var kept []Record
		for rec, err := range r.Records(t.Context()) {
			require.NoError(t, err)
			if kept = append(kept, rec); len(kept) == n {
				k.output(0, 5000) // reports the lost outputs
				k.poll.wake()
			} else if len(kept) == n+2 {
				break
			}
		}
		clear(k.w[0].Data())
		for i, rec := range kept[:n] {
			got, err := ringtest.Check(rec.Data)
			require.NoError(t, err)
			require.Equal(t, uint64(i+1), got)
		}
		require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Source: "fake", Time: 5000, Lost: 1, LostAfter: uint64(n)}, kept[n])
		require.Equal(t, uint64(5000), kept[n+1].Time)
	})
}

// A context that is cancelled with ErrStop as its cause has ended all the same: nil is for the
// function's ErrStop.
func TestRunOfAContextThatErrStopHasCancelled(t *testing.T) {
	forRunners(t, func(t *testing.T, k *fake, r runner) {
		for name, run := range map[string]func(context.Context, func()) error{
			"Run": func(ctx context.Context, f func()) error {
				return r.Run(ctx, func(Event) error { f(); return nil })
			},
			"RunBatches": func(ctx context.Context, f func()) error {
				return r.RunBatches(ctx, func(*Batch) error { f(); return nil })
			},
			"Events": func(ctx context.Context, f func()) (last error) {
				for _, err := range r.Events(ctx) {
					f()
					last = err
				}
				return last
			},
		} {
			k.output(0, 1, 2)
			ctx, cancel := context.WithCancelCause(t.Context())
			require.Equal(t, ErrStop, run(ctx, func() { cancel(ErrStop) }), name)
			require.Equal(t, ErrStop, run(ctx, func() {}), name)
			ids(t, r)
		}
		k.output(0, 1, 2)
		ctx, cancel := context.WithCancelCause(t.Context())
		require.NoError(t, r.Run(ctx, func(Event) error { cancel(errTest); return ErrStop }), "the function's goes before")
	})
}
