//go:build !linux

package perfbuf

import (
	"errors"
	"fmt"
)

var errNotLinux = fmt.Errorf("perfbuf: BPF needs Linux: %w", errors.ErrUnsupported)

// Open fails: perf event arrays are Linux's. This package builds elsewhere so that programs that
// use it can be vetted there.
func Open(mapFD int, opts Options) (*Reader, error) { return nil, errNotLinux }

// OpenRingBuf fails as Open does.
func OpenRingBuf(mapFD int, opts Options) (*Reader, error) { return nil, errNotLinux }

// Now is 0: there is no such clock.
func Now() uint64 { return 0 }
