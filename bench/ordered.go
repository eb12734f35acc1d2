package main

import (
	"fmt"
	"runtime"
	"time"
)

// What is compared in "ordered", besides ringfold. All of them deliver all events that the rings hold
// in time order, but for the first.
const (
	ringfoldUnordered = "ringfold-unordered" // ForEach of the same events, ring by ring
	ciliumHeap        = "cilium-heap"        // perf.Reader.ReadInto, then container/heap
	collectSort       = "collect-sort"       // ForEach that copies into one slice of bytes, then slices.SortFunc
)

var orderedReaders = []string{ringfold, ringfoldUnordered, ciliumHeap, collectSort}

const (
	orderedRingBytes = 64 << 10
	orderedPayload   = 56 // has the event's time: cilium/ebpf does not ask the kernel for it
)

// deliver is the function of a user: it gets each event in turn. The payload is valid until it returns.
type deliver func(time uint64, payload []byte)

// rings are those of one reader, which fills them, always in the same way, and reads what they hold.
type rings struct {
	fill  func() (events int, err error)
	drain func(deliver) error
	close func()
}

func ordered(r *run) error {
	for _, burst := range []int{1, 32} {
		if err := measureOrdered(r, orderedReaders, "2 real rings", burst, openReal); err != nil {
			return err
		}
		for _, n := range []int{2, 8, 32, 128} {
			open := func(reader string, burst int) (*rings, error) { return openSynthetic(reader, n, burst) }
			if err := measureOrdered(r, orderedReaders, fmt.Sprintf("%d rings", n), burst, open); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureOrdered lets the readers take turns and adds their medians. Events interleave perfectly, or
// come in runs of so many per ring.
func measureOrdered(r *run, readers []string, name string, burst int, open func(reader string, burst int) (*rings, error)) error {
	if burst == 1 {
		name += ", interleaved"
	} else {
		name += fmt.Sprintf(", bursts of %d", burst)
	}
	all := map[string]*rings{}
	defer func() {
		for _, c := range all {
			c.close()
		}
	}()
	for _, reader := range readers {
		c, err := open(reader, burst)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", name, reader, err)
		}
		all[reader] = c
	}
	rounds, atLeast, most := 1000, 15, 5*time.Second
	if r.quick {
		rounds, atLeast = 2, 2
	}
	took := samples{}
	begin := time.Now()
	for round := 0; round < rounds && (round < atLeast || time.Since(begin) < most); round++ {
		for _, reader := range rotated(readers, round) {
			ns, err := all[reader].measure(reader != ringfoldUnordered)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, reader, err)
			}
			took.add(reader, ns)
		}
	}
	r.add(name, "ns/event", took.medians(), readers...)
	return nil
}

// measure fills the rings and returns how long reading took, in ns per event.
func (c *rings) measure(inOrder bool) (float64, error) {
	n, err := c.fill()
	if err != nil {
		return 0, err
	}
	var got, inversions int
	var last, sum uint64
	begin := time.Now()
	err = c.drain(func(time uint64, payload []byte) {
		if time < last {
			inversions++
		}
		last = time
		sum += uint64(payload[8])
		got++
	})
	took := time.Since(begin)
	runtime.KeepAlive(sum) // payloads are read
	switch {
	case err != nil:
		return 0, err
	case got != n:
		return 0, fmt.Errorf("%d events of %d arrived", got, n)
	case inOrder && inversions > 0:
		return 0, fmt.Errorf("%d of %d events came after later ones", inversions, n)
	}
	return float64(took.Nanoseconds()) / float64(n), nil
}
