package perfdata_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// simulated makes a simulated kernel, and a reader of it that is closed when the test ends.
func simulated(t testing.TB, o perfbuf.Options) (*perfbuftest.Kernel, *perfbuf.Reader) {
	t.Helper()
	k := perfbuftest.New(perfbuftest.Options{})
	r, err := k.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return k, r
}

// emitted records n events of 40 bytes, one a millisecond, on two CPUs in turn; sorted, or ring by
// ring, some hundred of each.
func emitted(t testing.TB, rec *perfdata.Recorder, n int, sorted bool) {
	t.Helper()
	k, r := simulated(t, perfbuf.Options{})
	s := unordered(t, r)
	payload := slices.Repeat([]byte{7}, 40)
	each := 1
	if !sorted {
		each = 300
	}
	for i := range n {
		payload[0] = byte(i)
		k.Advance(time.Millisecond)
		require.NoError(t, k.Output(i%2, payload))
		if (i+1)%each == 0 || i == n-1 {
			require.NoError(t, s.ForEach(rec.Record))
		}
	}
}

// record makes a file of f's records.
func record(t testing.TB, o perfdata.Options, f func(*perfdata.Recorder)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perf.data")
	rec, err := perfdata.Create(path, o)
	require.NoError(t, err)
	f(rec)
	require.NoError(t, rec.Close())
	return path
}

// piped makes a file of the records that f writes to a pipe.
func piped(t testing.TB, o perfdata.Options, f func(*perfdata.Recorder)) string {
	t.Helper()
	var b bytes.Buffer
	rec, err := perfdata.NewRecorder(&b, o)
	require.NoError(t, err)
	f(rec)
	require.NoError(t, rec.Close())
	path := filepath.Join(t.TempDir(), "piped.data")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// opened opens a recording until the test ends.
func opened(t testing.TB, path string, o perfdata.ReplayOptions) *perfbuf.Reader {
	t.Helper()
	r, err := perfdata.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// openedAll opens each event of a recording.
func openedAll(t testing.TB, path string) (readers []*perfbuf.Reader) {
	t.Helper()
	events, err := perfdata.Events(path)
	require.NoError(t, err)
	for _, e := range events {
		readers = append(readers, opened(t, path, perfdata.ReplayOptions{Event: e.Name}))
	}
	return readers
}
