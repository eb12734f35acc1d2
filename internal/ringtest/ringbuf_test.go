package ringtest_test

import (
	"math"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// The kernel reserves all but the last byte, so all but 8, and counts nothing: the program sees
// that it failed.
func TestRingBufIsFull(t *testing.T) {
	for _, start := range []uint64{0, 1<<32 - 64, math.MaxUint64 - 63} {
		b := ringtest.NewRingBuf(64, start)
		_, err := b.Reserve(56)
		require.Equal(t, syscall.ENOSPC, err)
		h, err := b.Reserve(48)
		require.NoError(t, err)
		_, err = b.Reserve(0)
		require.Equal(t, syscall.ENOSPC, err)
		require.Equal(t, []uint64{2, start, start + 56}, []uint64{b.Failed(), b.Tail(), b.Head()})
		h.Commit(0)
		b.Raw().SetTail(b.Head())
		require.NoError(t, b.Output(make([]byte, 48)), "over the edge")
	}
}

// Readers are woken by the commit of the record that they have come to, or as the flags say.
func TestRingBufWakes(t *testing.T) {
	b := ringtest.NewRingBuf(256, 128)
	var h [4]ringtest.Record
	for i := range h {
		h[i], _ = b.Reserve(8)
	}
	require.False(t, h[1].Commit(0))
	require.True(t, h[2].Commit(ringtest.ForceWakeup))
	require.False(t, h[0].Commit(ringtest.NoWakeup))
	b.Raw().SetTail(h[3].Off)
	require.True(t, h[3].Discard(0), "a discarded one too")
}

// Both copies of the data are equal, and Poison overwrites both.
func TestRingBufIsThereTwice(t *testing.T) {
	b := ringtest.NewRingBuf(64, 48)
	require.NoError(t, b.Output(ringtest.Payload(7, 30)))
	data := b.Data()
	require.Equal(t, data[:64], data[64:])
	r := b.Raw()
	ev, _, ok := r.View().Find(r.At(48))
	require.True(t, ok)
	id, err := ringtest.Check(ev.Bytes())
	require.NoError(t, err)
	require.Equal(t, uint64(7), id)
	require.Equal(t, raw.Sample, ringtest.Parse(r, 48, b.Head()).Kind)
	r.SetTail(b.Head())
	b.Poison()
	require.Equal(t, data[:64], data[64:])
	for p := uint64(48); p < b.Head(); p++ {
		require.Equal(t, byte(0xDD), data[p])
	}
}
