package raw_test

import (
	"runtime/debug"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// A record whose header is among the ring's last bytes has its fields behind the edge, at the ring's
// beginning. Behind the edge of this one there is no memory.
func TestStretchStopsBeforeFieldsBehindTheEdge(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	room := guarded(t)
	for _, layout := range []raw.Layout{raw.LayoutRaw, raw.LayoutRawTime} {
		for left := uint64(8); left <= 32; left += 8 { // bytes of the last record before the edge
			w := ringtest.New(len(room), layout, uint64(len(room))-left-40)
			off := w.Head()
			first := ringtest.Payload(1, 20)
			if layout == raw.LayoutRaw {
				first = ringtest.Payload(1, 28)
			}
			require.NoError(t, w.Output(10, first))
			require.Equal(t, uint64(len(room))-left, w.Head())
			require.NoError(t, w.Output(20, ringtest.Payload(2, 44)))
			copy(room, w.Data())
			meta, _ := memory(64)
			r, err := raw.New(meta, room, layout)
			require.NoError(t, err)

			require.Equal(t, 1, sameStretch(t, r, off, w.Head(), w.Head()))
			end := off + 40
			require.Zero(t, sameStretch(t, r, end, w.Head(), w.Head()))
			var rec raw.Record
			r.Parse(end, w.Head(), &rec)
			require.Equal(t, raw.Sample, rec.Kind)
			_, _, ok := r.View().Find(r.At(end))
			require.False(t, ok, "it goes over the edge")
		}
	}
}

// What is read ahead of the last records before the edge lies before it too.
func TestPrefetchEndsAtTheEdge(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	room := guarded(t)
	w := ringtest.New(len(room), raw.LayoutRawTime, 64)
	off := w.Head()
	for w.Output(10, ringtest.Payload(1, 44)) == nil { // records of 64 bytes
	}
	require.Equal(t, uint64(len(room)), w.Head())
	copy(room, w.Data())
	meta, _ := memory(64)
	r, err := raw.New(meta, room, raw.LayoutRawTime)
	require.NoError(t, err)
	require.Equal(t, len(room)/64-1, sameStretch(t, r, off, w.Head(), w.Head()))
	require.Equal(t, w.Head(), sameSamples(t, r, off, w.Head(), 0, 100))
}
