package ringtest_test

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A reader treats simulated ring buffers like the kernel's: it skips discarded records, stops at
// busy ones, and reports the losses that programs count.
func TestRingBufs(t *testing.T) {
	k := ringtest.NewKernel(2, func(cpu int) uint64 { return uint64(cpu) + 100 })
	b := k.NewRingBufs(2, 4096, 1<<32-64)
	r, err := perfbuf.OpenSource(b, perfbuf.Options{Time: perfbuf.PayloadTime(8)})
	require.NoError(t, err)
	defer r.Close()
	reserve := func(i int, id, time uint64) ringtest.Record {
		rec, err := b.Reserve(1, i, 16)
		require.NoError(t, err)
		rec.Write(0, binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, id), time))
		return rec
	}
	reserve(0, 1, 10).Commit(0)
	reserve(0, 2, 11).Discard(0)
	busy := reserve(0, 3, 12)
	reserve(0, 4, 13).Commit(0)
	reserve(1, 5, 14).Commit(0)
	unordered, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	read := func() (got [][2]uint64) {
		require.NoError(t, unordered.ForEach(func(ev perfbuf.Event) error {
			if ev.Kind() == perfbuf.KindLost {
				got = append(got, [2]uint64{uint64(ev.CPU()), ev.Lost()})
				return nil
			}
			got = append(got, [2]uint64{binary.NativeEndian.Uint64(ev.Bytes()), ev.Time()})
			return nil
		}))
		return got
	}
	require.ElementsMatch(t, [][2]uint64{{1, 10}, {5, 14}}, read())
	busy.Commit(0)
	require.Equal(t, [][2]uint64{{3, 12}, {4, 13}}, read())
	_, err = b.Reserve(1, 0, 5000)
	require.Equal(t, syscall.ENOSPC, err)
	require.NoError(t, unordered.Close())
	stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Slack(0)})
	require.NoError(t, err)
	require.NoError(t, stream.ForEach(func(ev perfbuf.Event) error {
		require.Equal(t, [3]uint64{1, 1, 100}, [3]uint64{uint64(ev.CPU()), ev.Lost(), ev.LostAfter()})
		return nil
	}))
}
