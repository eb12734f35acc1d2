//go:build !linux

package perfchan

import "github.com/ringfold/ringfold/perfbuf"

// open fails as perfbuf.Open does.
func open(mapFD int, o perfbuf.Options) (r *perfbuf.Reader, countUnreported func(), err error) {
	r, err = perfbuf.Open(mapFD, o)
	return r, nil, err
}
