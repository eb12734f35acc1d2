package perfchan

import (
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/perfevent"
	"github.com/ringfold/ringfold/perfbuf"
)

// open is perfbuf.Open of rings that perf_buffer__new sets up, as in libbpfgo. countUnreported adds
// to the reader's Stats the losses that no record has reported, of rings that nobody reads.
func open(mapFD int, o perfbuf.Options) (r *perfbuf.Reader, countUnreported func(), err error) {
	reader, countUnreported, err := kernel.OpenReader(&perfevent.Map{FD: mapFD, Standard: true}, o)
	if err != nil {
		return nil, nil, err
	}
	return reader.(*perfbuf.Reader), countUnreported, nil
}
