//go:build !linux || !cgo

package libbpf

// MapNextKey returns ErrUnsupported.
func MapNextKey(mapFD int, key, next []byte) error { return ErrUnsupported }

// MapInner returns ErrUnsupported.
func MapInner(mapFD int, key []byte) (id int, err error) { return 0, ErrUnsupported }

// MapByID returns ErrUnsupported.
func MapByID(id int) (fd int, err error) { return -1, ErrUnsupported }
