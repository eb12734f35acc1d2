// Package simulate runs ordered streams, the real code of perfbuf, over the simulated kernel of
// ringtest. Everything happens in one logical thread. A scheduler chooses the next actor: a CPU for
// one micro-step, the barrier, the consumer, or the goroutine that changes sources. Its choices
// follow from a seed, so a failure can be repeated. The barrier waits while the consumer works.
package simulate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/perfbuf"
)

// Setup describes a simulation. Stream holds the user's options, except mode and time.
type Setup struct {
	CPUs      int
	RingBytes int
	Steps     int           // of the kernel, before its programs are detached
	Start     uint64        // of the rings' counters
	Skew      uint64        // most ns by which a CPU's reading of the clock lags
	Payload   bool          // ordered by the programs' own times
	NoTime    bool          // the kernel takes none
	NoCounter bool          // the kernel has no PERF_FORMAT_LOST
	Idle      int           // how many CPUs never do anything
	Abandon   bool          // the user closes the reader midway
	Slack     time.Duration // 0 is exact mode
	Sources   []Source      // in addition to a perf event array
	Only      bool          // instead of it
	Changes   bool          // sources leave the stream and return, while it runs
	Stream    perfbuf.StreamOptions
	Mutant    Mutant

	// Delivered, if not nil, gets each event.
	Delivered func(perfbuf.Event)
}

func (s Setup) exact() bool { return s.Slack == 0 }

// intervals reports whether the intervals of losses match the kernel's failures. They do not if
// events are ordered by the programs' own times, nor with a slack, as late events swap reports.
func (s Setup) intervals() bool { return s.exact() && !s.Payload }

// Result sums up a run.
type Result struct {
	Events, Late, Lost, Gaps, Dropped uint64
	Inversions, Spilled, Refused      uint64
	Barriers, Passes                  uint64
	Rest                              uint64 // events delivered by Drain
	Markers                           uint64
	Again                             uint64 // samples delivered again after Remove
	Hash                              uint64 // of all deliveries and counts
}

// world is one run.
type world struct {
	Setup
	kernel   *kernel
	truth    *truth
	sched    *rand.Rand // of the scheduler and the consumer
	sources  []*source
	stream   *perfbuf.Stream
	changing []*change // requested, not yet made
	using    bool      // the user is in a pass or a wait
	members  []*source // sources waited for together; nil: there is no group
	refusing bool      // the kernel refuses to wait for another source
	flushes  []uint64  // times of unanswered ones
	asked    int       // of all
	waits    wait

	barrier   *grace.Barrier // nil in slack mode
	began     uint64         // the clock when its round began
	starting  bool           // its round has yet to read the clock
	covered   uint64         // every event up to this time is due
	waiter    *coroutine     // makes the barrier's rounds
	consumer  *coroutine
	changer   *coroutine
	weights   [2]int // the kernel's and the barrier's turns, in 100
	finishing bool   // the consumer must finish
	draining  bool
	passes    uint64
	rest      uint64 // events that Drain has delivered
	failure   error  // of the consumer
}

// Run simulates a seed. An error wraps the property that does not hold.
func Run(s Setup, seed uint64) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanicked, p, debug.Stack())
		}
		if err != nil {
			err = fmt.Errorf("seed %d: %w", seed, err)
		}
	}()
	w := &world{Setup: s, sched: rand.New(rand.NewPCG(seed, 1))}
	w.kernel = newKernel(s, rand.New(rand.NewPCG(seed, 0)))
	w.truth = w.kernel.truth
	w.weights = [...][2]int{{15, 15}, {30, 20}, {50, 10}, {85, 7}}[w.sched.IntN(4)]
	defer func() {
		for _, src := range w.sources {
			if src.reader != nil {
				src.reader.Close()
			}
		}
	}()
	if err := w.open(); err != nil {
		return res, err
	}
	w.waiter, w.consumer, w.changer = newCoroutine(w.rounds), newCoroutine(w.consume), newCoroutine(w.meddle)
	defer w.waiter.stop()
	defer w.changer.stop()
	defer w.consumer.stop()
	if err := w.run(); err != nil {
		return res, err
	}
	if !s.Abandon {
		if err := w.drain(); err != nil {
			return res, err
		}
	}
	return w.close()
}

func (w *world) open() (err error) {
	all := w.Sources
	if !w.Only {
		all = append([]Source{{}}, all...)
	}
	for i, s := range all {
		w.sources = append(w.sources, w.newSource(s, i))
	}
	w.kernel.to = w.sources
	if !w.exact() {
		w.Stream.Order = perfbuf.Slack(w.Slack)
	}
	if w.sched.IntN(2) == 0 {
		w.Stream.FlushEvery = time.Millisecond
	}
	var readers []*perfbuf.Reader
	for _, src := range w.sources {
		if err := src.open(); err != nil {
			return err
		}
		readers = append(readers, src.reader)
	}
	w.stream, err = perfbuf.Merge(w.Stream, readers...)
	return err
}

// run is the scheduler.
func (w *world) run() error {
	for w.kernel.steps < w.Steps {
		switch r := w.sched.IntN(100); {
		case r < w.weights[0]:
			for range 1 + w.sched.IntN(6) {
				w.kernel.step()
			}
		case r < w.weights[0]+w.weights[1]:
			w.waiter.resume()
		case r%8 == 0 && !w.changer.ended:
			w.changer.resume()
		default:
			w.consumer.resume()
		}
		if w.failure != nil {
			return w.failure
		}
	}
	w.finishing = true
	if w.Abandon && w.sched.IntN(2) == 0 {
		w.sources[0].closed = true
		w.sources[0].reader.Close() // maybe within a pass
	}
	for !w.consumer.ended {
		w.consumer.resume()
		w.kernel.step()
	}
	if w.Abandon && errors.Is(w.failure, os.ErrClosed) {
		return nil
	}
	return w.failure
}

// Add sums up runs. The sum of hashes depends on their order.
func (r *Result) Add(o Result) {
	r.Events += o.Events
	r.Late += o.Late
	r.Lost += o.Lost
	r.Gaps += o.Gaps
	r.Dropped += o.Dropped
	r.Inversions += o.Inversions
	r.Spilled += o.Spilled
	r.Refused += o.Refused
	r.Barriers += o.Barriers
	r.Passes += o.Passes
	r.Rest += o.Rest
	r.Markers += o.Markers
	r.Again += o.Again
	r.Hash = r.Hash*31 + o.Hash
}

func (r Result) String() string {
	return fmt.Sprintf("%d events, %d late, %d dropped, %d lost in %d reports, %d inversions, %d bytes spilled (refused %d times), %d barriers, %d passes, %d markers",
		r.Events, r.Late, r.Dropped, r.Lost, r.Gaps, r.Inversions, r.Spilled, r.Refused, r.Barriers, r.Passes, r.Markers)
}
