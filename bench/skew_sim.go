package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
)

const (
	simRings     = 64
	simHot       = simRings / 2 // the ring that gets more than the others
	simRingBytes = 64 << 10
	simRoom      = simRingBytes / 80 // events of 56 bytes with a time
	simCost      = 1000              // ns that an event takes in the user's function: all that takes time
)

// skewCase is a load. The same outputs are tried at the same times, whatever the order of visits.
type skewCase struct {
	load    float64 // 1 is what the consumer can do
	hot     float64 // share of outputs that go to one ring; the others share the rest
	pauses  bool    // the consumer does something else now and then
	warmUp  uint64  // outputs that do not count: after those, rings are about as full as they will be
	outputs uint64
}

// skewSim is programs on many CPUs and a consumer in virtual time: delivering an event moves the clock,
// and while it moves programs output, so that rings fill during a pass.
type skewSim struct {
	skewCase
	rings     []*ringtest.Ring
	rnd       *rand.Rand // of outputs
	now, next float64    // ns; when the next output is due
	pauseRnd  *rand.Rand
	pauseMost float64 // ns
	pauseDue  float64 // when
	attempted uint64
	lost      uint64
	payload   [orderedPayload]byte
}

// simulateSkew runs a real Reader over rings in Go memory and returns the share of outputs that were lost.
func simulateSkew(order perfbuf.Schedule, c skewCase) (share float64, err error) {
	s := &skewSim{skewCase: c, rnd: rand.New(rand.NewPCG(3, 4)), pauseRnd: rand.New(rand.NewPCG(5, 6)), pauseDue: math.Inf(1)}
	if c.pauses {
		// A pause of simRoom outputs to the hot ring fills it up. A tenth of the consumer's time is left to catch up.
		s.pauseMost = 1.2 * simRoom * simCost / (c.load * c.hot)
		s.pauseDue = s.pauseEvery()
	}
	for range simRings {
		s.rings = append(s.rings, ringtest.New(simRingBytes, raw.LayoutRawTime, 0))
	}
	r, err := simulatedReader(s.rings, 0, func() uint64 { return uint64(s.now) }, perfbuf.Options{RingBytes: simRingBytes, Schedule: order})
	if err != nil {
		return 0, err
	}
	defer r.Close()
	stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		return 0, err
	}
	if err := s.consume(stream, c.warmUp); err != nil {
		return 0, err
	}
	s.attempted, s.lost = 0, 0
	if err := s.consume(stream, c.outputs); err != nil {
		return 0, err
	}
	return float64(s.lost) / float64(s.attempted), nil
}

func (s *skewSim) pauseEvery() float64 { return 11 * s.pauseMost }

func (s *skewSim) consume(stream *perfbuf.Stream, outputs uint64) error {
	for s.attempted < outputs {
		idle := true
		err := stream.ForEach(func(ev perfbuf.Event) error {
			idle = false
			switch ev.Kind() {
			case perfbuf.KindSample:
				s.advance(s.now + simCost + s.pause())
			case perfbuf.KindCorrupt:
				return fmt.Errorf("simulated rings: %w", ev.Err())
			}
			return nil
		})
		if err != nil {
			return err
		}
		if idle {
			s.advance(s.next) // the kernel wakes the reader
		}
	}
	return nil
}

// pause is how much longer an event takes, if a pause is due: none at least, and more than fills the
// hot ring up at most.
func (s *skewSim) pause() float64 {
	if s.now < s.pauseDue {
		return 0
	}
	s.pauseDue += s.pauseEvery()
	return s.pauseRnd.Float64() * s.pauseMost
}

// advance moves the clock, and outputs what is due by then: at random times, as from many sources.
func (s *skewSim) advance(to float64) {
	for ; s.next <= to; s.next += s.rnd.ExpFloat64() * simCost / s.load {
		ring := simHot
		if s.rnd.Float64() >= s.hot {
			ring = (simHot + 1 + s.rnd.IntN(simRings-1)) % simRings
		}
		s.attempted++
		if s.rings[ring].Output(uint64(s.next), s.payload[:]) != nil {
			s.lost++
		}
	}
	s.now = to
}
