package perfbuf

import "github.com/ringfold/ringfold/internal/perfevent"

// OpenDefault is Open with rings that perf_buffer__new sets up.
func OpenDefault(mapFD int, opts Options) (*Reader, error) {
	opts.NoTime = true
	return open(&perfevent.Map{FD: mapFD, Standard: true}, opts)
}
