package perfbuf

import (
	"fmt"
	"iter"
	"reflect"
	"unsafe"
)

// Decoder reads payloads as values of T, the Go twin of the C struct that the BPF program outputs.
// Make one per type with [NewDecoder], as a package variable, and use it for all events:
//
//	type exec struct {
//		PID  uint32
//		Comm [16]byte
//	}
//
//	var execs = perfbuf.NewDecoder[exec]()
//
//	err := stream.Run(ctx, func(ev perfbuf.Event) error {
//		if e, ok := execs.Decode(ev); ok {
//			fmt.Println(e.PID, unix.ByteSliceToString(e.Comm[:]))
//		}
//		return nil
//	})
//
// Each T is a copy that you may keep. A Decoder is safe for concurrent use. The zero Decoder panics
// when used.
type Decoder[T any] struct{ ok bool }

// NewDecoder returns a Decoder of T. T must consist of numbers, arrays and structs, and must not be
// empty. NewDecoder panics if T contains a pointer, slice, string, map, channel, function,
// interface or bool, of which ring memory may hold no valid value.
//
// T has Go's memory layout and the host's byte order. Where C pads a struct and Go would not, add
// fields for the padding. For a packed struct, use byte arrays.
func NewDecoder[T any]() Decoder[T] {
	switch t := reflect.TypeFor[T](); {
	case !plain(t):
		panic(fmt.Sprintf("perfbuf.NewDecoder: %v contains other types than numbers: use fixed-size numbers, arrays and structs of them", t))
	case t.Size() == 0:
		panic(fmt.Sprintf("perfbuf.NewDecoder: %v has no bytes: nothing to decode", t))
	}
	return Decoder[T]{ok: true}
}

// Decode copies the first bytes of a sample into a T. If the event is not a sample, or its payload
// is shorter than T, ok is false and the T is zero. Padding counts as payload (see [Event.Bytes]),
// and a longer payload is fine. Decode does not allocate.
func (d Decoder[T]) Decode(ev Event) (value T, ok bool) {
	if !d.ok {
		zeroDecoder()
	}
	// Only samples have a length, and T has one too. T has no pointers, so its memory may be
	// written as bytes.
	if ok = uintptr(ev.ev.Len()) >= unsafe.Sizeof(value); ok {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value)), ev.Bytes())
	}
	return
}

// All decodes events as it iterates over them, such as those of [Batch.Events]:
//
//	err := stream.RunBatches(ctx, func(b *perfbuf.Batch) error {
//		for e, ev := range execs.All(b.Events()) {
//			if ev.Kind() == perfbuf.KindSample {
//				outputs[e.PID]++
//			}
//		}
//		return nil
//	})
//
// All skips nothing. An event that Decode refuses comes with the zero T, and the event says why:
// check [Event.Kind], and [Event.Len] if payloads may be shorter than T. The event is valid until
// the loop body ends. The compiler turns the two iterators into one loop, without a call or an
// allocation per event. Where a loop also yields errors, such as [Stream.Events], call Decode in
// its body.
func (d Decoder[T]) All(events iter.Seq[Event]) iter.Seq2[T, Event] {
	return func(yield func(T, Event) bool) {
		for ev := range events {
			value, _ := d.Decode(ev)
			if !yield(value, ev) {
				return
			}
		}
	}
}

func zeroDecoder() { panic("perfbuf: zero Decoder: make one with NewDecoder") }

// plain reports whether any bytes are a valid value of t, unlike pointers or bool.
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
