package bpf

import (
	"encoding/binary"
	"testing"
)

// madeBTF describes int x; struct s { struct { int a; }; int b : 4; int c; }.
func madeBTF() []byte {
	const text = "\x00x\x00s\x00a\x00b\x00c\x00"
	words := []uint32{
		1, 1 << 24, 4, 32, // 1: INT
		0, 4<<24 | 1, 4, 5, 1, 0, // 2: STRUCT {a}
		3, 1<<31 | 4<<24 | 3, 12, 0, 2, 0, 7, 1, 4<<24 | 32, 9, 1, 64, // 3: STRUCT s
		1, 14 << 24, 1, 1, // 4: VAR x
	}
	b := []byte{0x9f, 0xeb, 1, 0}
	for _, w := range append([]uint32{24, 0, uint32(4 * len(words)), uint32(4 * len(words)), uint32(len(text))}, words...) {
		b = binary.NativeEndian.AppendUint32(b, w)
	}
	return append(b, text...)
}

func TestMadeBTF(t *testing.T) {
	b, err := parseBTF(madeBTF())
	if err != nil {
		t.Fatal(err)
	}
	if id := b.find(kindVar, "x"); id != 4 {
		t.Errorf("x is type %d, want 4", id)
	}
	for member, want := range map[string]int{"a": 0, "b": 4, "c": 8} {
		if offset, ok := b.member(b.find(kindStruct, "s"), member, 0); !ok || offset != want {
			t.Errorf("member %s: %d %t, want %d", member, offset, ok, want)
		}
	}
	if _, ok := b.member(3, "d", 0); ok {
		t.Error("member d exists")
	}
}

// Damaged BTF is refused, or searched as far as it makes sense.
func FuzzBTF(f *testing.F) {
	f.Add(madeBTF())
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := parseBTF(data); err == nil {
			b.find(kindVar, "x")
			b.member(b.find(kindStruct, "s"), "d", 0)
		}
	})
}
