//go:build !linux || !cgo

package libbpf

import "unsafe"

// PerfBuffer is a struct perf_buffer.
type PerfBuffer struct{}

// New returns ErrUnsupported.
func New(mapFD, pages int) (*PerfBuffer, error) { return nil, ErrUnsupported }

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

// MapCreate returns ErrUnsupported.
func MapCreate(mapType int, name string, keySize, valueSize, maxEntries, innerFD int) (int, error) {
	return -1, ErrUnsupported
}

// MapUpdate returns ErrUnsupported.
func MapUpdate(mapFD int, key, value uint32) error { return ErrUnsupported }

// MapDelete returns ErrUnsupported.
func MapDelete(mapFD int, key uint32) error { return ErrUnsupported }

// GetMapInfo returns ErrUnsupported.
func GetMapInfo(mapFD int) (MapInfo, error) { return MapInfo{}, ErrUnsupported }

// Version returns ErrUnsupported.
func Version() (Info, error) { return Info{}, ErrUnsupported }
