package workload

import (
	"encoding/binary"
	"fmt"
)

// Payload is what an event says of itself, as far as it is long enough.
type Payload struct {
	Seq  uint64 // number among those attempted on its CPU and lane
	Lane Lane
	CPU  int
	Size int    // bytes that the program output
	Time uint64 // ns of CLOCK_MONOTONIC, just before the output
}

// HeaderSize is how long a payload must be to say all this.
const HeaderSize = 24

// TimeOffset and CPUOffset are where payloads have their time and their CPU.
const TimeOffset, CPUOffset = 16, 12

// Parse decodes a payload and compares each byte with what the program output. A perf event array adds padding up to 8 bytes: with
// its length field of 4 bytes, a record's payload ends at a multiple of 8.
func Parse(b []byte, kind string) (Payload, error) {
	if len(b) < HeaderSize {
		return Payload{Size: -1}, fmt.Errorf("an event of %d bytes, shorter than any that was output", len(b))
	}
	seq, second := binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:])
	p := Payload{
		Seq: seq << 8 >> 8, Lane: Lane(seq >> 56), CPU: int(second >> 32), Size: int(uint32(second)),
		Time: binary.NativeEndian.Uint64(b[16:]),
	}
	if p.Lane >= Lanes || p.Size < HeaderSize || p.Size > MaxSize {
		return p, fmt.Errorf("an event of %d bytes that was never output: % x", len(b), b[:HeaderSize])
	}
	if err := checkLength(len(b), p.Size, kind); err != nil {
		return p, fmt.Errorf("event %d of CPU %d: %w", p.Seq, p.CPU, err)
	}
	return p, p.checkBytes(b[:p.Size])
}

// checkLength accepts the program's length, and for perf event arrays the padded one too, as the kernel records no other.
func checkLength(got, size int, kind string) error {
	padded := size
	if kind == "perf" {
		padded = (size+4+7)&^7 - 4
	}
	if got != size && got != padded {
		return fmt.Errorf("%d bytes were output, %d delivered", size, got)
	}
	return nil
}

func (p Payload) checkBytes(b []byte) error {
	var word [8]byte
	for i := HeaderSize / 8; i*8 < len(b); i++ {
		binary.NativeEndian.PutUint64(word[:], pattern(int(p.Seq%words)+i))
		n := min(8, len(b)-i*8)
		if got := b[i*8 : i*8+n]; string(got) != string(word[:n]) {
			return fmt.Errorf("event %d of CPU %d, %d bytes: at byte %d it has %x, output was %x", p.Seq, p.CPU, p.Size, i*8, got, word[:n])
		}
	}
	return nil
}

// ParseShort checks an event that is too short for a header, by the number it must have on its CPU.
func ParseShort(b []byte, kind string, seq uint64, size int) error {
	if err := checkLength(len(b), size, kind); err != nil {
		return err
	}
	var want [8]byte
	binary.NativeEndian.PutUint64(want[:], seq)
	if n := min(size, 8); string(b[:n]) != string(want[:n]) {
		return fmt.Errorf("event %d of %d bytes begins with % x", seq, size, b[:n])
	}
	return nil
}
