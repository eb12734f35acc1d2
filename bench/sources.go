package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// ringfoldSources is a stream of the same rings in four readers; of two where there are two rings.
const ringfoldSources = "ringfold-4-sources"

var sourcesReaders = []string{ringfold, ringfoldSources, ringfoldUnordered}

// sources measures what order costs over one source and over four, and how long a first event takes to a stream of one and of two.
func sources(r *run) error {
	for _, ringBuf := range []bool{false, true} {
		kind := "perf rings"
		if ringBuf {
			kind = "ring buffers"
		}
		for _, n := range []int{2, 32, 128} {
			open := func(reader string, burst int) (*rings, error) { return openSources(reader, ringBuf, n, burst) }
			if err := measureOrdered(r, sourcesReaders, fmt.Sprintf("%d %s", n, kind), 1, open); err != nil {
				return err
			}
		}
	}
	return firstOfSources(r)
}

// outputRing is a simulated ring.
type outputRing interface {
	output(time uint64, payload []byte) error
	used() uint64
}

type perfRing struct{ *ringtest.Ring }

func (p perfRing) output(time uint64, payload []byte) error { return p.Output(time, payload) }
func (p perfRing) used() uint64                             { return p.Head() - p.Tail() }

type bufRing struct{ *ringtest.RingBuf }

func (b bufRing) output(_ uint64, payload []byte) error { return b.Output(payload) }
func (b bufRing) used() uint64                          { return b.Head() - b.Tail() }

// openSources makes n rings, and as many readers of them as the name says.
func openSources(reader string, ringBuf bool, n, burst int) (*rings, error) {
	s := &synthetic{rnd: rand.New(rand.NewPCG(1, 2)), burst: burst, time: 1}
	clock := func() uint64 { return s.time }
	split := 1
	if reader == ringfoldSources {
		split = min(4, n)
	}
	var readers []*perfbuf.Reader
	c := &rings{fill: s.fill, close: func() {
		for _, r := range readers {
			r.Close()
		}
	}}
	for i := range split {
		open := openPerfSource
		if ringBuf {
			open = openBufSource
		}
		r, err := open(s, clock, i*n/split, (i+1)*n/split)
		if err != nil {
			c.close()
			return nil, err
		}
		readers = append(readers, r)
	}
	o := perfbuf.StreamOptions{Order: perfbuf.Slack(0), Spill: perfbuf.Spill{Bytes: -1}}
	if reader == ringfoldUnordered {
		o = perfbuf.StreamOptions{Order: perfbuf.Unordered()}
	}
	stream, err := perfbuf.Merge(o, readers...)
	if err != nil {
		c.close()
		return nil, err
	}
	c.drain = func(f deliver) error { return stream.ForEach(handTo(f)) }
	return c, nil
}

// openPerfSource reads rings of the CPUs from one up to another.
func openPerfSource(s *synthetic, clock func() uint64, from, to int) (*perfbuf.Reader, error) {
	var own []*ringtest.Ring
	for range to - from {
		ring := ringtest.New(orderedRingBytes, orderedLayout, 0)
		own, s.fake = append(own, ring), append(s.fake, perfRing{ring})
	}
	return simulatedReader(own, from, clock, perfbuf.Options{RingBytes: orderedRingBytes})
}

// openBufSource reads ring buffers, whose time is in their payloads.
func openBufSource(s *synthetic, clock func() uint64, from, to int) (*perfbuf.Reader, error) {
	still := ringtest.NewStill(clock, 0)
	for i := range to - from {
		ring := ringtest.NewRingBuf(orderedRingBytes, 0)
		s.fake = append(s.fake, bufRing{ring})
		memory := ring.Raw()
		memory.SetCPU(from + i)
		still.Memory = append(still.Memory, memory)
	}
	return perfbuf.OpenSource(still, perfbuf.Options{Time: perfbuf.PayloadTime(workload.TimeOffset)})
}

// fill outputs until a ring is nearly full.
func (s *synthetic) fill() (n int, err error) {
	var payload [orderedPayload]byte
	for {
		k := s.fake[s.rnd.IntN(len(s.fake))]
		for range 1 + s.rnd.IntN(2*s.burst-1) {
			if k.used() > orderedRingBytes-100 {
				return n, nil
			}
			s.time += 1 + s.rnd.Uint64N(100)
			binary.NativeEndian.PutUint64(payload[workload.TimeOffset:], s.time)
			if err := k.output(s.time, payload[:]); err != nil {
				return n, err
			}
			n++
		}
	}
}
