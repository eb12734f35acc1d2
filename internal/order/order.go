// Package order decides when each event's turn has come, over all rings of one or several readers.
// It chooses the watermark, asks for barriers, paces rounds, and relieves rings that fill up. It
// asks the kernel about unreported losses, and admits or drops late events.
//
// A waiting reader calls [Stream.Step] for its next action: start a round, [Stream.Sleep], or wait
// for events. A round is [Stream.Begin], then [Stream.Batch] and [Stream.Took] until no event is
// left, then [Stream.End]. Only Sleep blocks.
//
// Package merge implements the order itself, and package raw the memory of rings.
package order

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/walk"
)

// Never is later than every time. It stands for the absence of a flush.
const Never = math.MaxUint64

// Options says how to order.
type Options struct {
	Exact    bool           // completeness is proven, so events up to there are late
	Barrier  *grace.Barrier // proves completeness; nil: Slack guesses, or no source needs one
	Interval time.Duration  // least time between the starts of barriers
	Slack    time.Duration  // without a barrier: how long after its time an event is due
	Merge    merge.Options

	// A ring more than Above percent full is relieved until it is Until percent full. A Merge.Spill
	// of 0 disables relief.
	Above, Until int

	DropLate bool // drop late samples

	FlushEvery time.Duration // time from one marker to the next; 0: only on a call

	Now     func() uint64 // CLOCK_MONOTONIC, in ns
	Halt    *atomic.Bool  // set when the stream or a source is closed: ends passes and waits
	Changed *atomic.Bool  // set when sources are about to change: ends waits for rings
	Yield   func() bool   // lets a simulation go on; nil or false: real time
}

// Stream orders the rings of several readers. It is not safe for concurrent use, except for WakeUp,
// Complete and the sources' Counts.
type Stream struct {
	opts    Options
	sources []*Source

	merger *merge.Merger
	rings  []*ring // in the merger's order
	full   []int   // scratch of relieve

	scanned   uint64    // time of the latest load of heads
	lost      []raw.Odd // scratch of countedLosses
	elapsed   uint64    // ns from the load before to scanned
	quiet     bool      // a quiet ring may have lost events: ask about it later
	requested uint64    // requested barriers cover every time below it

	timer *time.Timer
	awake chan struct{} // capacity 1: WakeUp has been called

	pacing     pacing // the present wait's
	began      uint64 // time of the wait's first look; 0: not yet
	lastRound  uint64 // when the latest round began
	proven     uint64 // no event up to it is missing in the round: usually the watermark
	waited     uint64 // of a last round: the programs that ran then have ended; else 0
	all        bool   // the round delivers everything, not just events that are due
	untilCheck int    // events until a round checks how full the rings are

	Flushes walk.Flushes // calls for all sources together

	complete atomic.Uint64
	flushAt  uint64 // with FlushEvery: time that the next marker without a call covers

	events []raw.Event // of a batch
	origin []int       // the rings of those events
	merged int         // how many of them the merger may take back
}

// New makes a stream without sources. It owns neither its sources nor the barrier.
func New(o Options) *Stream {
	s := &Stream{
		opts:   o,
		events: make([]raw.Event, merge.BatchSize), origin: make([]int, merge.BatchSize),
		timer: time.NewTimer(time.Hour), awake: make(chan struct{}, 1), untilCheck: checkEvery,
	}
	s.merger = merge.New(nil, o.Merge, s.freed)
	s.StartWait()
	return s
}

// Barrier returns the present barrier, nil if there is none.
func (s *Stream) Barrier() *grace.Barrier { return s.opts.Barrier }

// SetBarrier replaces the barrier, and returns the old one if it is no longer used. No round may be
// under way.
func (s *Stream) SetBarrier(b *grace.Barrier) (old *grace.Barrier) {
	if old = s.opts.Barrier; old == b {
		return nil
	}
	s.opts.Barrier = b
	return old
}

// yield lets a simulation go on. It reports whether there is one.
func (s *Stream) yield() bool { return s.opts.Yield != nil && s.opts.Yield() }
