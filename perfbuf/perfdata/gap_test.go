package perfdata_test

import (
	"io"
	"os"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// A gap in a recording is replayed with its reason, whatever its length, and a copy has it too.
func TestGap(t *testing.T) {
	for n := range 20 {
		gap := perfdata.Gap{Reason: "spool full, and so on"[:1+n], Count: uint64(n), After: 5, Time: 1}
		path := piped(t, perfdata.Options{}, func(rec *perfdata.Recorder) { emitted(t, rec, 3, true) })
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		gap.Time = 1 << 50
		require.NoError(t, os.WriteFile(path, gap.Append(b), 0o600))
		for range 2 {
			var all []perfbuf.Record
			next := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) {
				stream, err := opened(t, path, perfdata.ReplayOptions{}).Stream(perfbuf.StreamOptions{})
				require.NoError(t, err)
				require.Equal(t, io.EOF, stream.Run(t.Context(), func(ev perfbuf.Event) error {
					all = append(all, ev.Record())
					return rec.Record(ev)
				}))
				require.EqualValues(t, n, rec.Stats().Lost)
			})
			require.Len(t, all, 4)
			last := all[3]
			require.Equal(t, perfbuf.KindLost, last.Kind)
			require.Equal(t, gap, perfdata.Gap{Reason: last.Reason, Count: last.Lost, After: last.LostAfter, Time: last.Time})
			path = next
		}
	}
}
