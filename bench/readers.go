package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// Variants of readers.
const (
	ringfoldForEach    = "ringfold-foreach"     // a call for each event
	ringfoldEveryEvent = "ringfold-every-event" // Options.Wakeup.Events is 1
	ringfoldEvery64    = "ringfold-every-64"    // 64
	ringfoldBytes      = "ringfold-bytes"       // Options.Wakeup.Bytes is half of the ring
	ringfoldPoll1      = "ringfold-poll-1ms"    // Options.Wakeup.PollInterval
	ringfoldPoll02     = "ringfold-poll-200us"
	ringfoldChannels   = "ringfold-channels" // perfchan.InitPerfBuf: libbpfgo's way
	ringfoldLanes      = "ringfold-lanes"    // Options.Lanes
	ringfoldPerf       = "ringfold-perf"     // dropin/perf: cilium/ebpf's way
)

// peer is one way to read, opened. It is used either for drains or for a loop.
type peer interface {
	// prepare makes the peer ready to be filled and drained.
	prepare() error
	// drain reads what the rings hold, which must be so many events: it touches the first word of each.
	drain(want int) error

	// start reads events as they come, in the way that the reader is meant to, beside the caller.
	start() error
	// counts says how many the loop has read, and how many it was told that it missed. It may be
	// called at any time.
	counts() (events, lost uint64)
	// timing is what a timed peer's loop has noted, for so many events as counts returned before. What it returns
	// is the peer's, until it is closed.
	timing() timing

	// close stops the loop.
	close() error
}

// built leaves out of a list what this program was built without.
func built(readers ...string) []string {
	return slices.DeleteFunc(readers, func(reader string) bool { return reader == ayaReader && !withAya })
}

// flusher is a peer that leaves events unread until more come.
type flusher interface{ flush() error }

// options are of all peers alike.
type options struct {
	ringBytes int           // for each CPU
	ringBuf   bool          // all read a BPF ring buffer of ringBytes
	timed     bool          // the loop reads the clock at each event
	takes     time.Duration // what the user does with each event
	lanes     bool          // programs may output in lanes: see lanes.go
}

// timing is noted while events are read.
type timing struct {
	delays    []uint32 // ns from an event's clock read to its being read, of the first mostDelays events
	overtaken uint64   // events that came after one with a later time
}

const mostDelays = 1 << 18

func open(reader string, c *collection, o options) (peer, error) {
	p, err := openPeer(reader, c, o)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", reader, err)
	}
	return p, nil
}

func openPeer(reader string, c *collection, o options) (peer, error) {
	if o.ringBuf {
		return openRingBufReader(reader, c, o)
	}
	if order, ok := orders()[reader]; ok {
		return openOrdered(c, o, order)
	}
	half := o.ringBytes / 2
	switch reader {
	case ringfold:
		return openRingfold(c, o, perfbuf.Wakeup{})
	case ringfoldOrdered, ringfoldTwoSources:
		p, err := openRingfold(c, o, perfbuf.Wakeup{})
		if err != nil {
			return nil, err
		}
		return openStream(p.(*ringfoldPeer), reader == ringfoldTwoSources)
	case ringfoldForEach:
		p, err := openRingfold(c, o, perfbuf.Wakeup{})
		if err == nil {
			p.(*ringfoldPeer).foreach = true
		}
		return p, err
	case ringfoldEveryEvent:
		return openRingfold(c, o, perfbuf.Wakeup{Events: 1})
	case ringfoldEvery64:
		return openRingfold(c, o, perfbuf.Wakeup{Events: 64})
	case ringfoldBytes:
		return openRingfold(c, o, perfbuf.Wakeup{Bytes: half})
	case ringfoldPoll1:
		return openRingfold(c, o, perfbuf.Wakeup{PollInterval: time.Millisecond})
	case ringfoldPoll02:
		return openRingfold(c, o, perfbuf.Wakeup{PollInterval: 200 * time.Microsecond})
	case ringfoldLanes:
		r, err := perfbuf.Open(c.FD(workload.Events), perfbuf.Options{RingBytes: o.ringBytes, LanesFD: c.LanesFD(workload.Events), Lanes: []int{50, 100}})
		if err != nil {
			return nil, err
		}
		return newRingfoldPeer(r, o)
	case ringfoldChannels:
		return openDropIn(c, o)
	case libbpfC:
		return openLibbpfC(c, o, false)
	case cLoop:
		return openLibbpfC(c, o, true)
	case cilium:
		return openCilium(c, o, 0)
	case ciliumWatermark:
		return openCilium(c, o, half)
	case ringfoldPerf:
		return openPerf(c, o)
	case libbpfgoReader:
		return openLibbpfgo(c, o)
	case ayaReader:
		return openAya(c, o)
	case ciliumRingbuf:
		return openRingbuf(c, o)
	}
	return nil, fmt.Errorf("there is no such reader")
}

// sink is what a loop in Go does with events. The one locked instruction for each is the
// measurement's; loops in C have it too.
type sink struct {
	sum          uint64 // of first words, so that they are read
	events, lost atomic.Uint64
	delays       []uint32      // nil if it is not timed
	latest       uint64        // of events' times
	overtaken    atomic.Uint64 // events with an earlier one
	takes        uint64        // ns that it is busy with each
}

// init prepares it for a reader.
func (s *sink) init(o options) {
	s.takes = uint64(o.takes)
	if o.timed {
		s.delays = make([]uint32, mostDelays)
	}
}

func (s *sink) event(payload []byte) {
	word := binary.NativeEndian.Uint64(payload)
	if s.delays != nil {
		time := binary.NativeEndian.Uint64(payload[workload.TimeOffset:])
		if n := s.events.Load(); n < mostDelays {
			s.delays[n] = uint32(min(clock.Now()-time, math.MaxUint32)) // before it is counted: a reader of the count may read it
		}
		if time < s.latest {
			s.overtaken.Add(1)
		}
		s.latest = max(s.latest, time)
	}
	if s.takes > 0 {
		for until := clock.Now() + s.takes; clock.Now() < until; {
		}
	}
	s.sum += word
	s.events.Add(1)
}

func (s *sink) counts() (events, lost uint64) { return s.events.Load(), s.lost.Load() }

func (s *sink) timing() timing {
	return timing{s.delays[:min(s.events.Load(), uint64(len(s.delays)))], s.overtaken.Load()}
}

// clock makes no system call, as clock_gettime in C makes none.
var clock = workload.NewClock(perfbuf.Now)

// pages is a ring's size as libbpf wants it.
func (o options) pages() int { return o.ringBytes / os.Getpagesize() }

func expect(got, want int) error {
	if got != want {
		return fmt.Errorf("read %d events, and there were %d", got, want)
	}
	return nil
}

// opened is a reader of a collection of its own.
type opened struct {
	name string
	c    *collection
	o    options
	p    peer
	base outputs // when it was opened
}

// loadAll loads a collection for each reader. The peers are not opened.
func loadAll(readers []string, o options) (all []*opened, closeAll func(), err error) {
	closeAll = func() {
		for _, r := range all {
			r.close() // what could fail has been seen to work by now, or its error is on the way
			r.c.close()
		}
	}
	for _, name := range readers {
		c, err := load(name, o)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, &opened{name: name, c: c, o: o})
	}
	return all, closeAll, nil
}

func (r *opened) open() (err error) {
	if r.base, err = r.c.outputs(); err != nil {
		return err
	}
	r.p, err = open(r.name, r.c, r.o)
	return err
}

func (r *opened) close() error {
	if r.p == nil {
		return nil
	}
	p := r.p
	r.p = nil
	if err := p.close(); err != nil {
		return fmt.Errorf("closing %s: %w", r.name, err)
	}
	return nil
}

// outputs is what was output since the reader was opened.
func (r *opened) outputs() (outputs, error) {
	o, err := r.c.outputs()
	return o.since(r.base), err
}

// settle waits, after the last output, until the loop has read all that were not refused.
func (r *opened) settle() (outputs, error) {
	o, err := r.outputs()
	if err != nil {
		return o, err
	}
	if f, ok := r.p.(flusher); ok {
		if err := f.flush(); err != nil {
			return o, fmt.Errorf("flushing %s: %w", r.name, err)
		}
	}
	last := uint64(0)
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		events, _ := r.p.counts()
		if events == o.attempted-o.failed {
			return o, nil
		}
		if events > last {
			last, begin = events, time.Now()
		}
		if events > o.attempted-o.failed || time.Since(begin) > patience {
			return o, fmt.Errorf("%s has read %d events, and %d were output: %d of %d were refused",
				r.name, events, o.attempted-o.failed, o.failed, o.attempted)
		}
	}
}
