package raw_test

import (
	"math"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// Several laps of a small ring, while the free-running counters pass a power of two.
func TestCountersPassPowersOfTwo(t *testing.T) {
	for name, start := range map[string]uint64{"2^31": 1<<31 - 256, "2^32": 1<<32 - 256, "2^63": 1<<63 - 256, "2^64": math.MaxUint64 - 255} {
		t.Run(name, func(t *testing.T) {
			w := ringtest.New(128, raw.LayoutRawTime, start)
			r := w.Raw()
			for i := range uint64(64) {
				require.NoError(t, w.Output(i, ringtest.Payload(i, 12+int(i)%40)))
				rec := ringtest.Parse(r, r.Tail(), r.Head())
				require.Equal(t, raw.Sample, rec.Kind)
				id, err := ringtest.Check(payload(r, rec))
				require.NoError(t, err)
				require.Equal(t, i, id)
				r.SetTail(r.Tail() + rec.Size)
				require.Equal(t, r.Head(), r.Tail())
			}
			require.Greater(t, r.Head()-start, uint64(512))
		})
	}
}

// No kernel publishes these. Rounded down, they keep every header inside the ring.
func TestCountersThatAreNoMultipleOf8AreRoundedDown(t *testing.T) {
	meta, data := memory(64)
	r, err := raw.New(meta, data, raw.LayoutRaw)
	require.NoError(t, err)
	head, tail := (*uint64)(unsafe.Add(meta, 1024)), (*uint64)(unsafe.Add(meta, 1032))
	for v, want := range map[uint64]uint64{0: 0, 7: 0, 8: 8, 63: 56, 65: 64, 1<<32 + 1: 1 << 32, math.MaxUint64: math.MaxUint64 - 7} {
		atomic.StoreUint64(head, v)
		atomic.StoreUint64(tail, v)
		require.Equal(t, want, r.Head())
		require.Equal(t, want, r.Tail())
	}
	r.SetTail(48)
	require.Equal(t, uint64(48), *tail)
}
