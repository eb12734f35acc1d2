package perfdata_test

import (
	"io"
	"os"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// A file of an earlier version is still read. UPDATE_GOLDEN=1 writes it anew, little-endian.
func TestGolden(t *testing.T) {
	const path = "testdata/golden.perf.data"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		rec, err := perfdata.Create(path, perfdata.Options{Events: []perfdata.EventInfo{{Name: "golden"}}})
		require.NoError(t, err)
		emitted(t, rec, 4, true)
		require.NoError(t, rec.Flush()) // and killed: the machine's names stay out of it
	}
	got, err := replayed(t, path, perfdata.ReplayOptions{Event: "golden"}, &perfbuf.StreamOptions{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Len(t, got, 4)
	for i, rec := range got {
		require.Equal(t, perfbuf.KindSample, rec.Kind)
		require.Equal(t, i%2, rec.CPU)
		require.Equal(t, uint64(3_600_000_000_000)+uint64(i+1)*1_000_000, rec.Time)
		require.Equal(t, []byte{byte(i), 7, 7}, rec.Data[:3])
	}
	require.Contains(t, perf(t, "script", "-i", path), " golden: ")
}
