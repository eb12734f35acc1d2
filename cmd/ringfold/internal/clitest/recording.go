package clitest

import (
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// Recording writes a recording of events of a simulated kernel, with these payloads, on 2 CPUs by turns, the step apart.
func Recording(t testing.TB, path string, o perfdata.Options, step time.Duration, payloads ...[]byte) {
	t.Helper()
	rec, err := perfdata.Create(path, o)
	require.NoError(t, err)
	k := perfbuftest.New(perfbuftest.Options{CPUs: 2})
	r, err := k.Open(perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	for i, payload := range payloads {
		k.Advance(step)
		require.NoError(t, k.Output(i%2, payload))
		require.NoError(t, stream.ForEach(rec.Record))
	}
	require.NoError(t, rec.Close())
}
