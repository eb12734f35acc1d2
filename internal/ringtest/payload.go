package ringtest

import (
	"encoding/binary"
	"fmt"
)

// MinPayload is the shortest payload that Payload makes.
const MinPayload = 12

// Payload makes n bytes (MinPayload to 65535) that hold id and their length. Check can verify them.
func Payload(id uint64, n int) []byte {
	b := binary.NativeEndian.AppendUint64(make([]byte, 0, n), id)
	b = binary.NativeEndian.AppendUint32(b, uint32(n)<<16|sum(id))
	for i := len(b); i < n; i++ {
		b = append(b, fill(id, i))
	}
	return b
}

func fill(id uint64, i int) byte { return byte(id*31 + uint64(i)*7 + id>>8) }

// Check verifies a payload as it was recorded, that is, with up to 7 bytes of padding behind, and
// returns its id.
func Check(b []byte) (id uint64, err error) {
	if len(b) < MinPayload {
		return 0, fmt.Errorf("payload of %d bytes: too short", len(b))
	}
	id = binary.NativeEndian.Uint64(b)
	word := binary.NativeEndian.Uint32(b[8:])
	n := int(word >> 16)
	if sum(id) != word&0xFFFF || n > len(b) || len(b)-n > 7 {
		return id, fmt.Errorf("payload of %d bytes begins with % x: not one of Payload", len(b), b[:MinPayload])
	}
	for i := MinPayload; i < n; i++ {
		if b[i] != fill(id, i) {
			return id, fmt.Errorf("payload %d: byte %d of %d is %#x, not %#x", id, i, n, b[i], fill(id, i))
		}
	}
	return id, nil
}

func sum(id uint64) uint32 { return uint32(id * 0x9E3779B97F4A7C15 >> 48) }
