//go:build linux && cgo

package main

import (
	"encoding/binary"
	"fmt"
)

// payloadTimeOffset is where a payload has its time.
const payloadTimeOffset = 16

// payload is what an event says of itself.
type payload struct {
	seq        uint64 // number of the output on its CPU and level, refused ones included
	cpu, level int
	source     int
	size       int
	time       uint64
}

func mix(sum, word uint64) uint64 {
	sum = (sum + word) * 0x9E3779B97F4A7C15
	return sum ^ sum>>32
}

// decode checks every byte of a payload, which is padded as perf's are, or not at all.
func decode(b, pattern []byte, padded bool) (payload, error) {
	if len(b) < minSize {
		return payload{}, fmt.Errorf("a payload of %d bytes: too short", len(b))
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	w := word(1)
	p := payload{
		seq: word(0), time: word(2), size: int(w & 0xffff),
		cpu: int(w >> 32), level: int(w >> 24 & 0xff), source: int(w >> 16 & 0xff),
	}
	if sum := mix(mix(mix(0, p.seq), w), p.time); sum != word(3) {
		return p, fmt.Errorf("payload %+v: the checksum is %x, should be %x", p, word(3), sum)
	}
	want := p.size
	if padded {
		want = (p.size+4+7)&^7 - 4
	}
	if len(b) != want {
		return p, fmt.Errorf("payload %+v has %d bytes, padding included, should have %d", p, len(b), want)
	}
	at := int(p.seq%patternSlots) * 8
	if string(b[minSize:p.size]) != string(pattern[at+minSize:at+p.size]) {
		return p, fmt.Errorf("payload %+v: wrong bytes behind the header", p)
	}
	return p, nil
}
