package raw_test

import (
	"math"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
)

func TestNew(t *testing.T) {
	for _, size := range []int{0, 1, 2, 4, 7, 8, 9, 12, 24, 32, 63, 4095, 4097, 4096 + 8, 12288} {
		meta, data := memory(size)
		_, err := raw.New(meta, data, raw.LayoutRaw)
		require.ErrorContains(t, err, "power of two", size)
	}
	for _, size := range []int{64, 128, 4096, 1 << 20} {
		meta, data := memory(size)
		r, err := raw.New(meta, data, raw.LayoutRaw)
		require.NoError(t, err, size)
		require.Equal(t, uint64(size), r.Size())
	}
	meta, data := memory(128)
	for shift := 1; shift < 8; shift++ {
		_, err := raw.New(unsafe.Add(meta, shift), data, raw.LayoutRaw)
		require.ErrorContains(t, err, "aligned", "metadata at %d", shift)
		_, err = raw.New(meta, data[shift:shift+64], raw.LayoutRaw)
		require.ErrorContains(t, err, "aligned", "data at %d", shift)
	}
	_, err := raw.New(unsafe.Add(meta, 8), data[8:72], raw.LayoutRaw)
	require.NoError(t, err)
}

func TestNewRingBuf(t *testing.T) {
	var positions [2]uint64
	for _, size := range []int{0, 8, 64, 126, 127, 129, 192, 3 * 4096} {
		_, data := memory(size)
		_, err := raw.NewRingBuf(&positions[0], &positions[1], data)
		require.ErrorContains(t, err, "power of two", size)
	}
	_, data := memory(256)
	r, err := raw.NewRingBuf(&positions[0], &positions[1], data)
	require.NoError(t, err)
	require.Equal(t, []any{uint64(128), -1, -1, raw.LayoutRingBuf}, []any{r.Size(), r.CPU(), r.TimeAt(), r.Layout()})
	_, err = raw.NewRingBuf(&positions[0], &positions[1], data[4:132])
	require.ErrorContains(t, err, "aligned")
	half := (*uint64)(unsafe.Add(unsafe.Pointer(&positions), 4))
	_, err = raw.NewRingBuf(half, &positions[1], data)
	require.ErrorContains(t, err, "aligned")
	_, err = raw.NewRingBuf(&positions[0], half, data)
	require.ErrorContains(t, err, "aligned")
}

// The kernel publishes only multiples of 8. Other counters are rounded down, which keeps every
// header inside the ring.
func TestCountersAreRoundedDown(t *testing.T) {
	meta, data := memory(64)
	r, err := raw.New(meta, data, raw.LayoutRaw)
	require.NoError(t, err)
	head, tail := (*uint64)(unsafe.Add(meta, 8*raw.HeadWord)), (*uint64)(unsafe.Add(meta, 8*raw.TailWord))
	for v, want := range map[uint64]uint64{0: 0, 7: 0, 8: 8, 63: 56, 65: 64, 1<<32 + 1: 1 << 32, math.MaxUint64: math.MaxUint64 - 7} {
		atomic.StoreUint64(head, v)
		atomic.StoreUint64(tail, v)
		require.Equal(t, []uint64{want, want}, []uint64{r.Head(), r.Tail()})
	}
	r.SetTail(48)
	require.Equal(t, uint64(48), *tail)
}
