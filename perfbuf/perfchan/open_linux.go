package perfchan

import (
	"github.com/ringfold/ringfold/internal/perfevent"
	"github.com/ringfold/ringfold/perfbuf"
)

// open is perfbuf.Open of rings that perf_buffer__new sets up, as in libbpfgo.
func open(mapFD int, o perfbuf.Options) (*perfbuf.Reader, error) {
	return perfbuf.OpenSource(&perfevent.Map{FD: mapFD, Standard: true}, o)
}
