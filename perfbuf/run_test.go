package perfbuf

import (
	"context"
	"os"
	"testing"
	"testing/synctest"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// What waits is tried with the two sources that do: a reader, and a stream in which everything is
// due.
var waiterKinds = map[string]func(k *fake) runner{
	"unordered": func(k *fake) runner { return k.unordered() },
	"ordered":   func(k *fake) runner { return k.stream() },
}

type runner = *Stream

func forRunners(t *testing.T, test func(t *testing.T, k *fake, r runner)) {
	for name, source := range waiterKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newFake(t, 1, Options{})
				test(t, k, source(k))
			})
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
		require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Source: k.Reader, Time: 5000, Lost: 1, LostAfter: uint64(n)}, kept[n])
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
