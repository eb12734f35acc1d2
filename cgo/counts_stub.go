//go:build !linux || !cgo

package libbpf

// MapSizes returns ErrUnsupported.
func MapSizes(mapFD int) (key, value int, err error) { return 0, 0, ErrUnsupported }

// MapLookup returns ErrUnsupported.
func MapLookup(mapFD int, key uint32, values []uint64) error { return ErrUnsupported }

// MapSet returns ErrUnsupported.
func MapSet(mapFD int, key uint32, value uint64) error { return ErrUnsupported }

// RecursionMisses returns ErrUnsupported.
func RecursionMisses(progFD int) (uint64, error) { return 0, ErrUnsupported }
