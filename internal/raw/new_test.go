package raw_test

import (
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
)

// memory is size data bytes and a metadata page, all aligned to 8 bytes.
func memory(size int) (meta unsafe.Pointer, data []byte) {
	page, words := make([]uint64, 4096/8), make([]uint64, (size+7)/8+1)
	return unsafe.Pointer(unsafe.SliceData(page)), unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
}

func TestNewTakesPowersOfTwo(t *testing.T) {
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
}

func TestNewRefusesUnalignedMemory(t *testing.T) {
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
