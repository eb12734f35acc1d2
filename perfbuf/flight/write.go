package flight

import (
	"fmt"
	"io"
	"os"

	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// WriteTo writes the snapshot as perf.data, in the format for pipes. `perf script -i -` and
// [perfdata.Open] read it. It has the events of [Snapshot.Events]. Its times of the first and the
// last sample are [Snapshot.CompleteSince] and [Snapshot.Until]. It lacks the contents of
// [Snapshot.Rings].
//
// It blocks while w does, and takes 1 MiB of memory. The number of bytes and the error are those of
// w's writes. After [Snapshot.Release], which must not run meanwhile, the error is [os.ErrClosed].
// An error leaves the snapshot unchanged, so you can write it elsewhere. It counts a sample of more
// than [perfdata.MaxSample] bytes as lost.
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
