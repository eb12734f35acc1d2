//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A Record is owned: it is intact after the ring has been written over many times.
func TestKernelRecords(t *testing.T) {
	// A record is freed when the next one is asked for: there must be room for two rounds.
	eachSource(t, perfbuf.Options{RingBytes: 8192}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		next, stop := iter.Pull2(src.Records(t.Context()))
		defer stop()
		var recs []perfbuf.Record
		for i := range 400 {
			for _, ring := range r.Rings() {
				e.Emit(ring.CPU(), 1, sizes[i%len(sizes)])
			}
			for range r.Rings() {
				rec, err, ok := next()
				require.True(t, ok)
				require.NoError(t, err)
				recs = append(recs, rec)
			}
		}
		require.Greater(t, r.Stats().Rings[0].Bytes, uint64(30*8192))
		seq := map[int]uint64{}
		for _, rec := range recs {
			p, err := kerneltest.Check(rec.Data)
			require.NoError(t, err)
			require.Equal(t, seq[rec.CPU], p.Seq)
			require.Equal(t, rec.CPU, p.CPU)
			require.NotZero(t, rec.Time)
			require.Equal(t, perfbuf.Record{Kind: perfbuf.KindSample, CPU: p.CPU, Source: r, Time: rec.Time, Data: rec.Data}, rec)
			seq[rec.CPU]++
		}
	})
}

// Run, Events and Records each wait for events, and stop on request, without losing any.
func TestKernelStreams(t *testing.T) {
	const n = 500
	cause := errors.New("cause")
	own := errors.New("the function's own")
	eachSource(t, perfbuf.Options{RingBytes: 64 << 10}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		emit := func() {
			background(t, func() {
				for range n {
					for _, ring := range r.Rings() {
						e.Emit(ring.CPU(), 1, 56)
					}
				}
			})
		}
		total := n * len(r.Rings())
		l := newLedger(t)

		emit()
		got := 0
		require.NoError(t, src.Run(t.Context(), func(ev perfbuf.Event) error {
			l.add(ev)
			if got++; got == total {
				return perfbuf.ErrStop
			}
			return nil
		}))

		emit()
		for ev, err := range src.Events(t.Context()) {
			require.NoError(t, err)
			l.add(ev)
			if got++; got == 2*total {
				break
			}
		}

		emit()
		for rec, err := range src.Records(t.Context()) {
			require.NoError(t, err)
			p, err := kerneltest.Check(rec.Data)
			require.NoError(t, err)
			a := l.cpus[rec.CPU]
			require.Equal(t, a.next, p.Seq)
			a.next, a.time = p.Seq+1, rec.Time
			a.delivered++
			if got++; got == 3*total {
				break
			}
		}

		emit()
		require.Equal(t, own, src.Run(t.Context(), func(ev perfbuf.Event) error {
			l.add(ev)
			if got++; got == 4*total {
				return own
			}
			return nil
		}))
		l.balance(e, r)
		require.Zero(t, l.lost())

		// Cancelled from inside, they end after that event, with the cause.
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 10, 56)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		events := 0
		require.Equal(t, cause, src.Run(ctx, func(perfbuf.Event) error { events++; cancel(cause); return nil }))
		for _, err := range src.Events(ctx) {
			require.Equal(t, cause, err)
		}
		for rec, err := range src.Records(ctx) {
			require.Equal(t, cause, err)
			require.Equal(t, perfbuf.Record{}, rec)
		}
		require.Equal(t, 1, events)
		require.Len(t, collect(t, src), 10*len(r.Rings())-1)
	})
}
