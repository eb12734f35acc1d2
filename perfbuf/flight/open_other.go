//go:build !linux

package flight

import "github.com/ringfold/ringfold/perfbuf"

// Open fails as perfbuf.Open does.
func Open(mapFD int, opts Options) (*Recorder, error) {
	_, err := perfbuf.Open(mapFD, perfbuf.Options{})
	return nil, err
}
