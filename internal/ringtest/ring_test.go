package ringtest_test

import (
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// What a kernel did with a ring of one page.
func TestRingTakesAsManyRecordsAsTheKernels(t *testing.T) {
	r := ringtest.New(4096, raw.LayoutRaw, 0)
	n := 0
	for r.Output(0, make([]byte, 20)) == nil { // a record of 32 bytes
		n++
	}
	require.Equal(t, 127, n)
	require.Equal(t, uint64(1), r.Pending())
}

func TestRawSizeIncludesPadding(t *testing.T) {
	for given, recorded := range map[int]uint32{0: 4, 4: 4, 5: 12, 8: 12, 9: 12, 12: 12, 13: 20} {
		r := ringtest.New(64, raw.LayoutRaw, 0)
		require.NoError(t, r.Output(0, make([]byte, given)))
		ring := r.Raw()
		require.Equal(t, recorded, ringtest.Parse(ring, 0, ring.Head()).Len, given)
	}
}

func TestLossIsReportedWithTheNextOutputThatFits(t *testing.T) {
	r := ringtest.New(128, raw.LayoutRawTime, 0)
	ring := r.Raw()
	for range 3 {
		require.NoError(t, r.Output(10, ringtest.Payload(1, 20)))
	}
	require.Equal(t, syscall.ENOSPC, r.Output(20, ringtest.Payload(2, 12)), "32 bytes are free, of which one stays free")
	ring.SetTail(40)
	require.Equal(t, syscall.ENOSPC, r.Output(30, ringtest.Payload(3, 20)), "40 bytes would fit, but not the 32 of the report")
	require.Equal(t, uint64(2), r.Pending())
	ring.SetTail(80)
	require.NoError(t, r.Output(40, ringtest.Payload(4, 20)))
	require.Zero(t, r.Pending())

	lost := ringtest.Parse(ring, 120, ring.Head())
	require.Equal(t, raw.Record{Kind: raw.Lost, Off: 120, Size: 32, Time: 40, Lost: 2}, lost)
	sample := ringtest.Parse(ring, 152, ring.Head())
	require.Equal(t, raw.Sample, sample.Kind)
	require.Equal(t, uint64(40), sample.Time)
	require.Equal(t, ring.Head(), 152+sample.Size)
}

func TestCheckSeesEveryChangedByte(t *testing.T) {
	for _, n := range []int{ringtest.MinPayload, 13, 56, 300} {
		b := ringtest.Payload(77, n)
		id, err := ringtest.Check(append(b, 1, 2, 3, 4, 5, 6, 7)) // padding
		require.NoError(t, err)
		require.Equal(t, uint64(77), id)
		for i := range n {
			b[i] ^= 0x10
			_, err := ringtest.Check(b)
			require.Error(t, err, "byte %d of %d", i, n)
			b[i] ^= 0x10
		}
	}
}
