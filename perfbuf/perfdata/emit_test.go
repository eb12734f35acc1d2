package perfdata_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// emitted records n events of 40 bytes, one a millisecond, on two CPUs in turn; sorted, or ring by ring, some hundred of each.
func emitted(t testing.TB, rec *perfdata.Recorder, n int, sorted bool) {
	t.Helper()
	k := perfbuftest.New(perfbuftest.Options{})
	r, err := k.Open(perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
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
			require.NoError(t, r.ForEach(rec.Record))
		}
	}
}
