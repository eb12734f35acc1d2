// Package order decides when an event's turn has come, over all rings of one or several readers. It chooses the
// watermark, asks for barriers, paces rounds, relieves rings that fill up, asks the kernel about
// losses that nothing reports, and admits or drops late events.
//
// A waiting reader calls [Stream.Step] for what to do: start a round, [Stream.Sleep], or wait for events.
// A round is [Stream.Begin], then [Stream.Batch] and [Stream.Took] until there is no event left, then
// [Stream.End]. Nothing but Sleep blocks.
//
// The order itself is that of package merge. The memory of rings is that of package raw.
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

// Never is later than every time: it is the time of no flush.
const Never = math.MaxUint64

// Options says how to order.
type Options struct {
	Exact    bool           // what is complete is proven, so what comes up to there is late
	Barrier  *grace.Barrier // proves it; nil: Slack guesses, or no source needs one
	Interval time.Duration  // between the starts of barriers, at least
	Slack    time.Duration  // without a barrier: an event is due this long after its time
	Merge    merge.Options

	// A ring that is more than Above percent full is relieved until it is Until percent full. A
	// Merge.Spill of 0 never relieves one.
	Above, Until int

	DropLate bool // late samples are dropped

	FlushEvery time.Duration // a marker is due so long after the time of the one before; 0: only on a call

	Now     func() uint64 // CLOCK_MONOTONIC, in ns
	Halt    *atomic.Bool  // set when the stream is closed, or one of its sources: passes and waits end
	Changed *atomic.Bool  // set when sources are to be changed: waits for rings end
	Yield   func() bool   // lets a simulation go on; nil, or false: this is none, and time passes by itself
}

// Stream is the order over the rings of several readers. It is not safe for concurrent use, except
// for WakeUp, Complete and the sources' Counts.
type Stream struct {
	opts    Options
	sources []*Source

	merger *merge.Merger
	rings  []*ring // as the merger has them
	full   []int   // scratch of relieve

	scanned   uint64    // when heads were last loaded, by the clock
	lost      []raw.Odd // scratch of countedLosses
	elapsed   uint64    // ns between that and the load before
	quiet     bool      // a ring may have lost events, and is to be asked about it after a while
	requested uint64    // barriers asked for cover every time below it

	timer *time.Timer
	awake chan struct{} // of capacity 1: somebody has called WakeUp

	pacing     pacing // of the present wait
	began      uint64 // when that first looked; 0: not yet
	lastRound  uint64 // when the latest round began
	proven     uint64 // nothing up to it can be missing in what the round has seen: its watermark, as a rule
	waited     uint64 // of a round that is to be the last: programs that ran then have ended; else 0
	all        bool   // the round delivers everything, not just what is due
	untilCheck int    // events until a round checks how full the rings are

	Flushes walk.Flushes // those of all sources together

	complete atomic.Uint64
	flushAt  uint64 // with FlushEvery: the next marker without a call covers it

	events []raw.Event // of a batch
	origin []int       // the rings they come from
	merged int         // so many of them the merger may take back
}

// New makes a stream without sources. It owns neither these nor the barrier.
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

// Barrier is the one in use, nil if there is none.
func (s *Stream) Barrier() *grace.Barrier { return s.opts.Barrier }

// SetBarrier replaces it, and returns the one that is not used any longer. No round may be under way.
func (s *Stream) SetBarrier(b *grace.Barrier) (old *grace.Barrier) {
	if old = s.opts.Barrier; old == b {
		return nil
	}
	s.opts.Barrier = b
	return old
}

// yield lets a simulation go on. It reports whether this is one.
func (s *Stream) yield() bool { return s.opts.Yield != nil && s.opts.Yield() }
