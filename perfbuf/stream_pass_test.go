package perfbuf

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// RunBatches shows where each pass ends: tails are stored then, the watermark has moved on, and the
// stream may be used.
func TestEndOfAPass(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			s := source(k)
			ctx, cancel := context.WithCancelCause(t.Context())
			var got []uint64
			ends := 0
			require.Equal(t, errTest, func() error {
				k.output(0, 1, 2)
				return s.RunBatches(ctx, func(b *Batch) error {
					for ev := range b.Events() {
						got = append(got, id(t, ev))
					}
					if !b.End() {
						return nil
					}
					require.Equal(t, k.w[0].Head(), k.w[0].Tail())
					require.Empty(t, ids(t, s), "it may be used")
					if name == "ordered" {
						require.GreaterOrEqual(t, s.Watermark(), got[len(got)-1])
					}
					if ends++; ends == 3 {
						cancel(errTest)
						return nil
					}
					k.output(0, 10*uint64(ends))
					return nil
				})
			}())
			require.Equal(t, []uint64{1, 2, 10, 20}, got)
			require.Equal(t, 3, ends)

			k.output(0, 30)
			require.NoError(t, s.RunBatches(t.Context(), func(b *Batch) error {
				require.False(t, b.End(), "a pass that the function ends has no end to show")
				return ErrStop
			}))
			k.output(0, 40)
			require.NoError(t, s.RunBatches(t.Context(), func(b *Batch) error {
				if b.End() {
					return ErrStop
				}
				return nil
			}))
		})
	}
}

// Another goroutine closes the stream while f has an event: its rings are free once the pass has
// ended.
func TestCloseOfAStreamFromOutside(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			s := source(k)
			k.output(0, 1, 2)
			has, closed, result := make(chan bool), make(chan bool), make(chan error)
			go func() {
				_, err := Fold(s, 0, func(int, Event) (int, error) {
					close(has)
					<-closed
					return 0, nil
				})
				result <- err
			}()
			<-has
			require.NoError(t, s.Close())
			requireHeld(t, k.all()[0])
			close(closed)
			require.Equal(t, os.ErrClosed, <-result)
			own, err := k.all()[0].Stream()
			require.NoError(t, err)
			if name != "ordered" { // which drops the events it has seen
				require.Equal(t, []uint64{2}, ids(t, own))
			}
			require.Zero(t, k.freed.Load(), "the reader is open")
		})
	}
}

// Without order, several readers are one stream too: it waits for all of them, and they come and
// go.
func TestMergeUnordered(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Unordered()}, a.Reader)
	require.NoError(t, err)
	require.NoError(t, s.Add(b.Reader))
	a.output(0, 3)
	b.output(0, 1, 2)
	require.NoError(t, s.Wait(t.Context()))
	require.NoError(t, s.Flush())
	require.Equal(t, []uint64{3, 1, 2, ^a.clock.Load()}, ids(t, s))
	require.Zero(t, s.Watermark())
	b.output(0, 4)
	require.NoError(t, s.Remove(a.Reader))
	require.NoError(t, s.Wait(t.Context()))
	require.Equal(t, []uint64{4}, ids(t, s))
	a.output(0, 5)
	require.Equal(t, []uint64{5}, ids(t, a.unordered()), "given back")
	require.NoError(t, s.Remove(b.Reader))
	require.Empty(t, ids(t, s))
	_, err = Merge(StreamOptions{Order: Unordered(), FlushEvery: 1e9}, b.Reader)
	require.ErrorContains(t, err, "has no watermark")
}
