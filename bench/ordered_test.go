package main

import (
	"encoding/binary"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"

	"github.com/ringfold/ringfold/internal/workload"
)

// All readers deliver the same events, round after round, and in order: measure sees to that.
func TestOrdered(t *testing.T) {
	for _, burst := range []int{1, 32} {
		r := &run{quick: true, bench: "ordered"}
		open := func(reader string, burst int) (*rings, error) { return openSynthetic(reader, 5, burst) }
		if err := measureOrdered(r, orderedReaders, "5 rings", burst, open); err != nil {
			t.Fatal(err)
		}
		if len(r.results) != len(orderedReaders) {
			t.Errorf("results: %+v", r.results)
		}
	}
}

func TestOrderedReal(t *testing.T) {
	kerneltest.Require(t)
	if len(cpus) < 2 {
		t.Skip("needs two CPUs")
	}
	for _, burst := range []int{1, 32} {
		if err := measureOrdered(&run{quick: true}, orderedReaders, "2 real rings", burst, openReal); err != nil {
			t.Fatal(err)
		}
	}
}

// Payloads arrive as they were output, with their times.
func TestOrderedPayloads(t *testing.T) {
	for _, reader := range orderedReaders {
		c, err := openSynthetic(reader, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		if _, err := c.fill(); err != nil {
			t.Fatal(err)
		}
		err = c.drain(func(time uint64, payload []byte) {
			// 60 bytes fill the record up to a multiple of 8.
			if len(payload) != 60 || binary.NativeEndian.Uint64(payload[workload.TimeOffset:]) != time {
				t.Fatalf("%s: an event at %d has the payload % x", reader, time, payload)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
