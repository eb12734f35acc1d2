//go:build !linux || !cgo || perfbuf_nolibbpf

package libbpf

import "unsafe"

// Available reports whether the program has libbpf.
const Available = false

// PerfBuffer is a struct perf_buffer.
type PerfBuffer struct{}

// Free does nothing.
func (p *PerfBuffer) Free() {}

// EpollFD returns -1.
func (p *PerfBuffer) EpollFD() int { return -1 }

// BufferCnt returns 0.
func (p *PerfBuffer) BufferCnt() int { return 0 }

// BufferFD returns ErrUnsupported.
func (p *PerfBuffer) BufferFD(i int) (int, error) { return -1, ErrUnsupported }

// Buffer returns ErrUnsupported.
func (p *PerfBuffer) Buffer(i int) (meta unsafe.Pointer, data []byte, err error) {
	return nil, nil, ErrUnsupported
}

// Version returns ErrUnsupported.
func Version() (Info, error) { return Info{}, ErrUnsupported }
