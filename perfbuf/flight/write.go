package flight

import (
	"fmt"
	"io"
	"os"

	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// WriteTo writes the snapshot as perf.data, in the format for pipes: a file of it, or `perf script -i -`, and [perfdata.Open] read it. The
// file has the events of [Snapshot.Events]; its times of the first and the last sample are [Snapshot.CompleteSince] and [Snapshot.Until]. What
// [Snapshot.Rings] says is not in it.
//
// It blocks while w does, and takes 1 MiB of memory. The number of bytes and the error are those of w's writes; after [Snapshot.Release],
// which must not be called meanwhile, it is [os.ErrClosed]. After an error the snapshot is as before, and can be written elsewhere. A sample of more than [perfdata.MaxSample] bytes is counted as lost.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	if s.released.Load() {
		return 0, fmt.Errorf("flight.Snapshot.WriteTo: the snapshot was released: %w", os.ErrClosed)
	}
	rec, err := perfdata.NewRecorder(w, perfdata.Options{Since: s.CompleteSince(), Until: s.Until()})
	if err == nil {
		for ev := range s.Events() {
			if rec.Record(ev) != nil {
				break // Close has the error
			}
		}
		err = rec.Close()
	}
	return int64(rec.Stats().Bytes), err
}
