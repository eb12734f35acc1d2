// Package workload is the load of all tests on the real kernel: BPF programs that output checkable
// events to perf event arrays and BPF ring buffers, processes that make them run, and the accounts
// of both sides.
package workload

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Payload describes its event. CPU, Level and Seq together identify it.
type Payload struct {
	Seq    uint64 // number of the output on its CPU and level, refused ones included
	CPU    int
	Level  int    // programs that it interrupted, and that were about to output
	Source Source // what made the program run
	Size   int    // bytes that the program output
	Time   uint64 // CLOCK_MONOTONIC in ns, before the output; if stamped, after the reservation
}

// Sizes of workload.bpf.c, in bytes.
const (
	HeaderSize  = 24      // the least that Check takes
	CheckedSize = 32      // from this size on, a checksum guards the header
	StampedSize = 64      // of all stamped payloads
	MaxSize     = 1 << 17 // the largest of Run
	maxTraced   = CheckedSize + 511
	places      = 64 // where in the pattern payloads begin
)

// TimeOffset and CPUOffset are where payloads have their time, 8 bytes, and their CPU, 4 bytes on
// little-endian machines.
const TimeOffset, CPUOffset = 16, 12

// Pattern is word i of the pattern that payloads are pieces of.
func Pattern(i int) uint64 { return uint64(i+1) * 0xD6E8FEB86659FD93 }

var pattern = func() (b []byte) {
	for i := range places + MaxSize/8 {
		b = binary.NativeEndian.AppendUint64(b, Pattern(i))
	}
	return b
}()

func mix(sum, word uint64) uint64 {
	sum = (sum + word) * 0x9E3779B97F4A7C15
	return sum ^ sum>>32
}

func checksum(seq, shape, time uint64) uint64 {
	const magic = 0x72696e67666f6c64
	return mix(mix(mix(magic, seq), shape), time)
}

// Padded is how long a perf event array makes a payload: with its length field of 4 bytes, a
// record's payload ends at a multiple of 8.
func Padded(size int) int { return (size+4+7)&^7 - 4 }

// Bytes is the payload that a program outputs.
func (p Payload) Bytes() []byte { return p.Append(nil) }

// Append appends it.
func (p Payload) Append(to []byte) []byte {
	n := len(to)
	to = append(to, pattern[p.place():][:max(p.Size, CheckedSize)]...)
	b := to[n:]
	shape := uint64(p.CPU)<<32 | uint64(p.Source)<<24 | uint64(p.Level)<<20 | uint64(p.Size)
	for i, w := range []uint64{p.Seq, shape, p.Time, checksum(p.Seq, shape, p.Time)} {
		binary.NativeEndian.PutUint64(b[8*i:], w)
	}
	return to[:n+p.Size]
}

// place is where in the pattern it begins.
func (p Payload) place() int { return int(p.Seq%places) * 8 }

// Check decodes a payload and compares every byte with what the program output, padding aside. It
// may have its own length, or the padded one.
func Check(b []byte) (p Payload, err error) {
	if len(b) < HeaderSize {
		return p, fmt.Errorf("payload of %d bytes: too short", len(b))
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	shape := word(1)
	p = Payload{
		Seq: word(0), Time: word(2), CPU: int(shape >> 32), Source: Source(shape >> 24 & 0xff),
		Level: int(shape >> 20 & 0xf), Size: int(shape & 0xfffff),
	}
	switch {
	case p.Level >= Levels || p.Size < HeaderSize || p.Size > MaxSize || p.Source == 0 || p.Source >= sources:
		return p, fmt.Errorf("no program output this: %d bytes, % x", len(b), b[:HeaderSize])
	case len(b) != p.Size && len(b) != Padded(p.Size):
		return p, fmt.Errorf("payload %+v has %d bytes", p, len(b))
	}
	from := HeaderSize
	if p.Size >= CheckedSize {
		time := p.Time
		if p.Source == Copy { // the output itself took the time
			time = 0
		}
		if sum := checksum(p.Seq, shape, time); sum != word(3) {
			return p, fmt.Errorf("payload %+v: the checksum is %x, should be %x", p, word(3), sum)
		}
		from = CheckedSize
	} else if tail := binary.NativeEndian.AppendUint64(nil, checksum(p.Seq, shape, p.Time)); p.Size > from {
		if string(b[from:p.Size]) != string(tail[:p.Size-from]) {
			return p, fmt.Errorf("payload %+v: the beginning of the checksum is wrong", p)
		}
		from = p.Size
	}
	return p, p.differs(b, from)
}

// differs compares the bytes behind the header with the pattern.
func (p Payload) differs(b []byte, from int) error {
	want := pattern[p.place():]
	if bytes.Equal(b[from:p.Size], want[from:p.Size]) {
		return nil
	}
	for b[from] == want[from] {
		from++
	}
	return fmt.Errorf("payload %+v: byte %d is %#x, should be %#x", p, from, b[from], want[from])
}

// CheckShort checks a payload that is too short for a header, by the number that it must have.
func CheckShort(b []byte, seq uint64, size int) error {
	if len(b) != size && len(b) != Padded(size) {
		return fmt.Errorf("%d bytes were output, %d delivered", size, len(b))
	}
	want := binary.NativeEndian.AppendUint64(nil, seq)
	if n := min(size, 8); string(b[:n]) != string(want[:n]) {
		return fmt.Errorf("event %d of %d bytes begins with % x", seq, size, b[:n])
	}
	return nil
}

// CheckBare compares the whole words of what Programs.Bare output.
func CheckBare(b []byte) error {
	for i := 0; i+8 <= len(b); i += 8 {
		if string(b[i:i+8]) != string(pattern[i:i+8]) {
			return fmt.Errorf("bare payload: bytes at %d are %x, should be %x", i, b[i:i+8], pattern[i:i+8])
		}
	}
	return nil
}
