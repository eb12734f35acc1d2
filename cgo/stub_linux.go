//go:build !cgo || perfbuf_nolibbpf

package libbpf

import "golang.org/x/sys/unix"

// NewRaw returns ErrUnsupported.
func NewRaw(mapFD, pages int, attr *unix.PerfEventAttr, cpus, keys []int) (*PerfBuffer, error) {
	return nil, ErrUnsupported
}
