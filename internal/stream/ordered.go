package stream

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/raw"
)

// never is later than every time. It stands for the absence of a flush.
const never = math.MaxUint64

// Options says how to order.
type Options struct {
	Exact    bool           // completeness is proven, so events up to there are late
	barrier  *grace.Barrier // proves completeness; nil: Slack guesses, or no source needs one
	Interval time.Duration  // least time between the starts of barriers
	Slack    time.Duration  // without a barrier: how long after its time an event is due
	Spill    int            // budget for bytes copied out of full rings; 0: none

	// A ring more than Above percent full is relieved until it is Until percent full. A Spill of 0
	// disables relief.
	Above, Until int

	DropLate bool // drop late samples

	FlushEvery time.Duration // time from one marker to the next; 0: only on a call

	Now     func() uint64 // CLOCK_MONOTONIC, in ns
	Halt    *atomic.Bool  // set when the stream or a source is closed: ends passes and waits
	Changed *atomic.Bool  // set when sources are about to change: ends waits for rings
	Yield   func() bool   // lets a simulation go on; nil or false: real time
}

// Ordered delivers the events of all rings of one or several readers in order of time. It chooses
// the watermark, asks for barriers, paces rounds, and relieves rings that fill up. It asks the
// kernel about unreported losses, and admits or drops late events.
//
// A waiting reader calls Step for its next action: start a round, Sleep, or wait for events. A
// round is a pass from Begin on. Sleep blocks, and Step for a quick barrier.
//
// Ordered is not safe for concurrent use, except for WakeUp, Complete and the sources' Counts.
type Ordered struct {
	opts    Options
	pass    *Pass
	done    func() // called at the end of a pass
	sources []*Source

	merger *merger
	full   []*ring // scratch of relieve

	scanned   uint64    // time of the latest load of heads
	lost      []raw.Odd // scratch of countedLosses
	elapsed   uint64    // ns from the load before to scanned
	quiet     bool      // a quiet ring may have lost events: ask about it later
	requested uint64    // requested barriers cover every time below it

	timer *time.Timer
	awake chan struct{} // capacity 1: WakeUp has been called

	pacing     pacing // the present wait's
	began      uint64 // time of the wait's first look; 0: not yet
	waits      bool   // a wait led to the round: its user lets Step make the next barrier
	lastRound  uint64 // when the latest round began
	proven     uint64 // no event up to it is missing in the round: usually the watermark
	waited     uint64 // of a last round: the programs that ran then have ended; else 0
	all        bool   // the round delivers everything, not just events that are due
	untilCheck int    // events until a round checks how full the rings are

	Flushes Flushes // calls for all sources together

	complete atomic.Uint64
	flushAt  uint64 // with FlushEvery: time that the next marker without a call covers

	events []raw.Event // of a batch
	origin []int       // the rings of those events
	merged int         // how many of them the merger may take back
}

// NewOrdered makes p the pass of a stream without sources, which calls done at the end of a pass.
// It owns neither its sources nor the barrier.
func NewOrdered(p *Pass, o Options, done func()) *Ordered {
	s := &Ordered{
		opts: o, pass: p, done: done,
		events: make([]raw.Event, batchSize), origin: make([]int, batchSize),
		timer: time.NewTimer(time.Hour), awake: make(chan struct{}, 1), untilCheck: checkEvery,
	}
	s.merger = newMerger(o.Spill, s.freed)
	p.Halt, p.walk = o.Halt, s
	s.StartWait()
	return s
}

// Latest returns the greatest time of a delivered event, or 0. Call it within a pass.
func (s *Ordered) Latest() uint64 { return s.merger.last }

// Barrier returns the present barrier, nil if there is none.
func (s *Ordered) Barrier() *grace.Barrier { return s.opts.barrier }

// SetBarrier replaces the barrier, and returns the old one if it is no longer used. No round may be
// under way.
func (s *Ordered) SetBarrier(b *grace.Barrier) (old *grace.Barrier) {
	if old = s.opts.barrier; old == b {
		return nil
	}
	s.opts.barrier = b
	return old
}

// yield lets a simulation go on. It reports whether there is one.
func (s *Ordered) yield() bool { return s.opts.Yield != nil && s.opts.Yield() }
