package merge

import (
	"encoding/binary"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
)

// Payload is the payload of a sample in its ring.
type Payload struct {
	rec  *raw.Record
	ring *raw.Ring
}

// Uint64 reads the 8 bytes at offset at; ok is false if the payload ends before.
func (p Payload) Uint64(at int) (v uint64, ok bool) {
	if at < 0 || uint64(at)+8 > uint64(p.rec.Len) {
		return 0, false
	}
	// Invariant of raw.Record: First of Len bytes are at Data, the rest at the ring's base.
	head := unsafe.Slice((*byte)(p.rec.Data), p.rec.First)
	if at+8 <= len(head) {
		return binary.NativeEndian.Uint64(head[at:]), true
	}
	rest := unsafe.Slice((*byte)(p.ring.Base()), p.rec.Len-p.rec.First)
	var b [8]byte
	for i := range b {
		if j := at + i; j < len(head) {
			b[i] = head[j]
		} else {
			b[i] = rest[j-len(head)]
		}
	}
	return binary.NativeEndian.Uint64(b[:]), true
}

// bytesOf is the memory of words.
func bytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words)) // invariant: 8 bytes each
}
