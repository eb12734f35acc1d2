package perfbuf

import (
	"fmt"
	"reflect"
	"unsafe"
)

// View reads payloads as values of a fixed-size type T, such as the Go twin of the C struct that
// the program outputs. Its zero value is not usable: see [ViewOf].
type View[T any] struct{ ok bool }

// ViewOf makes a View of T. It fails unless T is made of numbers, arrays and structs alone: bytes
// from a ring must never become pointers (slices, strings, maps, interfaces), nor a bool other than
// 0 and 1. T is laid out by Go's rules: a C struct with padding that Go would not have needs it as
// fields of T.
func ViewOf[T any]() (View[T], error) {
	if t := reflect.TypeFor[T](); !plain(t) {
		return View[T]{}, fmt.Errorf("perfbuf.ViewOf: %v is not made of numbers alone: use fixed-size numbers, arrays and structs of them", t)
	}
	return View[T]{ok: true}, nil
}

// MustView is ViewOf for package variables: it panics where ViewOf fails.
func MustView[T any]() View[T] {
	v, err := ViewOf[T]()
	if err != nil {
		panic(err)
	}
	return v
}

// Load copies the first bytes of a sample into a T. ok is false if the event is no sample or is
// shorter than T; a longer one is fine, since padding cannot be told from payload.
func (v View[T]) Load(e Event) (value T, ok bool) {
	if !v.ok {
		panic("perfbuf: zero View: make one with ViewOf")
	}
	b := e.Bytes()
	if uintptr(len(b)) < unsafe.Sizeof(value) || e.Kind() != KindSample {
		return value, false
	}
	// T has no pointers, so its memory may be written as bytes.
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value)), b)
	return value, true
}

// plain reports whether any bytes make a value of t: not so with pointers, nor with bool.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !plain(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return false
	}
}
