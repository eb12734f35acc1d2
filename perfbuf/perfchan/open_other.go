//go:build !linux

package perfchan

import "github.com/ringfold/ringfold/perfbuf"

// open fails as perfbuf.Open does.
func open(mapFD int, o perfbuf.Options) (*perfbuf.Reader, error) { return perfbuf.Open(mapFD, o) }
