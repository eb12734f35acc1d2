package main

import (
	"errors"
	"math/rand/v2"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/perfbuf"
)

// synthetic is rings in Go memory, written as the kernel does, for more CPUs than this machine has.
type synthetic struct {
	fake  []outputRing
	rnd   *rand.Rand
	burst int
	time  uint64
}

// orderedLayout has the kernel's time.
const orderedLayout = raw.LayoutRawTime

// openSynthetic makes n rings and a reader of them. Each has the records that its attr asks the kernel
// for: without a time for cilium/ebpf, with one for the others.
func openSynthetic(reader string, n, burst int) (*rings, error) {
	layout := orderedLayout
	if reader == ciliumHeap {
		layout = raw.LayoutRaw
	}
	s := &synthetic{rnd: rand.New(rand.NewPCG(1, 2)), burst: burst, time: 1}
	var own []*ringtest.Ring
	for range n {
		ring := ringtest.New(orderedRingBytes, layout, 0)
		own, s.fake = append(own, ring), append(s.fake, perfRing{ring})
	}
	c := &rings{fill: s.fill, close: func() {}}
	if reader == ciliumHeap {
		records, h := newCiliumCopy(own), &recordHeap{}
		c.drain = func(f deliver) error { return heapOrder(records, errEmptied, h, f) }
		return c, nil
	}
	r, err := simulatedReader(own, 0, func() uint64 { return s.time }, perfbuf.Options{RingBytes: orderedRingBytes})
	if err != nil {
		return nil, err
	}
	c.close = func() { r.Close() }
	c.drain, err = ringfoldDrain(reader, r)
	return c, err
}

// simulatedReader is perfbuf.Open on rings in Go memory, in a kernel without PERF_FORMAT_LOST.
func simulatedReader(fake []*ringtest.Ring, first int, clock func() uint64, o perfbuf.Options) (*perfbuf.Reader, error) {
	o.Wakeup = perfbuf.Wakeup{Events: 1} // there are no doorbells
	return perfbuf.OpenSource(ringtest.NewStill(clock, first, fake...), o)
}

var errLoss = errors.New("an event that is no sample: the rings were to hold all that was output")

// ringfoldDrain is what is made of perfbuf: in order, without, and without but sorted.
func ringfoldDrain(reader string, r *perfbuf.Reader) (func(deliver) error, error) {
	o := perfbuf.StreamOptions{Order: perfbuf.Unordered()}
	if reader == ringfold { // everything that is there is due, as nothing is written meanwhile
		o = perfbuf.StreamOptions{Order: perfbuf.Slack(0), Spill: perfbuf.Spill{Bytes: -1}}
	}
	s, err := r.Stream(o)
	if err != nil {
		return nil, err
	}
	if reader == ringfold || reader == ringfoldUnordered {
		return func(f deliver) error { return s.ForEach(handTo(f)) }, nil
	}
	var c collector
	return func(f deliver) error { return c.drain(s, f) }, nil
}

func handTo(f deliver) func(perfbuf.Event) error {
	return func(ev perfbuf.Event) error {
		if ev.Kind() != perfbuf.KindSample {
			return errLoss
		}
		f(ev.Time(), ev.Bytes())
		return nil
	}
}
