// Package order decides when an event's turn has come, over all rings of a reader. It chooses the
// watermark, asks for barriers, paces rounds, relieves rings that fill up, asks the kernel about
// losses that nothing reports, and admits or drops late events.
//
// Whoever waits calls [Stream.Next] for what to do: start a round, [Stream.Sleep], or wait for events.
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
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
)

// Never is later than every time: it is the time of no flush.
const Never = math.MaxUint64

// Options says how to order.
type Options struct {
	Barrier  *grace.Barrier // proves that events are complete; nil: Slack guesses
	Interval time.Duration  // between the starts of barriers, at least
	Slack    time.Duration  // without a barrier: an event is due this long after its time
	Merge    merge.Options

	// A ring that is more than Above percent full is relieved until it is Until percent full. A
	// Merge.Spill of 0 never relieves one.
	Above, Until int

	DropLate bool // late samples are dropped

	FlushEvery time.Duration // a marker is due so long after the time of the one before; 0: only on a call

	Wakeup Wakeup
}

// Owner is the reader whose rings a stream reads. It counts what becomes of them. The stream calls it
// from its own methods, in their goroutine.
type Owner interface {
	// Rings returns the reader's rings from this one on: those of CPUs that have come online since.
	Rings(from int) []Ring
	// Loaded says that a ring's head was loaded. It holds so many bytes, of which some have come since the
	// load before.
	Loaded(ring int, used, grown uint64)
	// Count says what has become of a ring's records since the last time. That is said at the end of a round
	// and whenever the ring's tail is stored.
	Count(ring int, t Tally)
}

// Ring is one that a stream begins to read.
type Ring struct {
	Memory *raw.Ring
	Losses Losses
}

// Stream is the order over a reader's rings. It is not safe for concurrent use, except
// for WakeUp, Complete and its Counts.
type Stream struct {
	kernel  kernel.Kernel
	stepped kernel.Stepped // nil: this is no simulation
	owner   Owner
	opts    Options
	counts  *Counts

	merger *merge.Merger
	rings  []ring
	full   []int // scratch of relieve

	scanned   uint64 // when heads were last loaded, by the clock
	elapsed   uint64 // ns between that and the load before
	quiet     bool   // a ring may have lost events, and is to be asked about it after a while
	requested uint64 // barriers asked for cover every time below it

	timer *time.Timer
	awake chan struct{} // of capacity 1: somebody has called WakeUp

	pacing     pacing // of the present wait
	began      uint64 // when that first looked; 0: not yet
	lastRound  uint64 // when the latest round began
	proven     uint64 // nothing up to it can be missing in what the round has seen: its watermark, as a rule
	waited     uint64 // of a round that is to be the last: programs that ran then have ended; else 0
	untilCheck int    // events until a round checks how full the rings are

	complete atomic.Uint64
	flushAt  uint64 // with FlushEvery: the next marker without a call covers it

	events []raw.Event // of a batch
	origin []int       // the rings they come from
	merged int         // so many of them the merger may take back
}

// ring is what a stream knows of one.
type ring struct {
	memory *raw.Ring
	head   uint64 // as last loaded
	before uint64 // as loaded the time before that
	losses lossWatch
	found  uint64 // samples that have been delivered and not counted, or are held
	tally  Tally
}

// New makes a stream of the owner's rings, from their published tails on. It owns neither the kernel nor
// the barrier. Counts are added to c.
func New(k kernel.Kernel, owner Owner, c *Counts, o Options) *Stream {
	s := &Stream{
		kernel: k, owner: owner, opts: o, counts: c,
		events: make([]raw.Event, merge.BatchSize), origin: make([]int, merge.BatchSize),
		timer: time.NewTimer(time.Hour), awake: make(chan struct{}, 1), untilCheck: checkEvery,
	}
	s.stepped, _ = k.(kernel.Stepped)
	s.pacing = newPacing(&s.opts)
	if o.FlushEvery > 0 {
		s.startInterval(k.Now())
	}
	rings := owner.Rings(0)
	memory := make([]*raw.Ring, len(rings))
	for i, r := range rings {
		memory[i] = r.Memory
	}
	s.merger = merge.New(memory, o.Merge, s.freed)
	for _, r := range rings {
		s.take(r)
	}
	return s
}

// take begins to read a ring that the merger has.
func (s *Stream) take(r Ring) {
	i := len(s.rings)
	tail := s.merger.Freed(i)
	s.rings = append(s.rings, ring{memory: r.Memory, head: tail, before: tail, losses: newLossWatch(r.Losses)})
	s.merger.Expect(i, r.Losses.Advance)
}

// adopt takes in the rings of CPUs that have come online since. A round must not be under way.
func (s *Stream) adopt() {
	for _, r := range s.owner.Rings(len(s.rings)) {
		s.merger.Add(r.Memory)
		s.take(r)
	}
}

// Len returns how many rings the stream has taken in.
func (s *Stream) Len() int { return len(s.rings) }

// Held returns how many samples of a ring have been seen and not delivered.
func (s *Stream) Held(ring int) int { return s.merger.Held(ring) }

// Scanned returns the offset up to which a ring's records have been seen.
func (s *Stream) Scanned(ring int) uint64 { return s.merger.Scanned(ring) }

// Ahead returns how many bytes of a ring have not been seen, if this is its head.
func (s *Stream) Ahead(ring int, head uint64) uint64 { return s.merger.Ahead(ring, head) }

// Abandon gives up everything that is held, and stores the rings' tails behind it. It is the last call.
func (s *Stream) Abandon() {
	for i := range s.rings {
		s.rings[i].found = 0 // they are not delivered
	}
	s.merger.Abandon()
	s.counts.SpillUsed.Store(s.merger.Spilled())
}

// yield lets a simulation go on.
func (s *Stream) yield() {
	if s.stepped != nil {
		s.stepped.Yield()
	}
}
