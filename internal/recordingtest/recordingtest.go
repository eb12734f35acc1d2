// Package recordingtest makes recordings for tests of several modules.
package recordingtest

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// Lossy writes a recording of a simulated kernel whose rings ran full, and returns how many events
// it has, and how many outputs failed. Payloads are numbers of 4 bytes, which count outputs from 0.
func Lossy(t testing.TB, path string, outputs int) (events, lost uint64) {
	t.Helper()
	rec, err := perfdata.Create(path, perfdata.Options{})
	require.NoError(t, err)
	k := perfbuftest.New(perfbuftest.Options{CPUs: 2})
	r, err := k.Open(perfbuf.Options{RingBytes: 4096})
	require.NoError(t, err)
	defer r.Close()
	stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	for i := range outputs {
		k.Advance(time.Microsecond)
		if k.Output(i%2, binary.LittleEndian.AppendUint32(nil, uint32(i))) != nil {
			lost++
		}
		if i%600 == 599 || i == outputs-1 {
			require.NoError(t, stream.ForEach(rec.Record))
		}
	}
	require.NoError(t, stream.Shutdown(t.Context(), rec.Record))
	require.NoError(t, rec.Close())
	require.Equal(t, lost, rec.Stats().Lost)
	require.NotZero(t, lost)
	return rec.Stats().Samples, lost
}
