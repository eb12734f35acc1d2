// Package simulate runs ordered streams, the real code of perfbuf, over the simulated kernel of
// ringtest. Everything happens in one logical thread: one scheduler chooses who goes on, the CPUs by
// one micro-step, the barrier, or the consumer, and its choices follow from a seed. So the barrier
// is under way while the consumer scans, spills and delivers, and a failure can be repeated.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	seam "github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/perfbuf"
)

// Setup is what to simulate. Stream is what the user asks for, without mode and time.
type Setup struct {
	CPUs      int
	RingBytes int
	Steps     int           // of the kernel, before its programs are detached
	Start     uint64        // of the rings' counters
	Skew      uint64        // ns by which CPUs' readings of the clock are behind at most
	Payload   bool          // ordered by the programs' own times
	NoTime    bool          // the kernel takes none
	NoCounter bool          // the kernel has no PERF_FORMAT_LOST
	Idle      int           // so many CPUs never do anything
	Abandon   bool          // the reader is closed in the middle of everything
	Slack     time.Duration // 0 is exact mode
	Stream    perfbuf.OrderOptions
	Mutant    Mutant

	// Delivered, if not nil, is told of each event.
	Delivered func(perfbuf.Event)
}

func (s Setup) exact() bool { return s.Slack == 0 }

// intervals tells whether intervals of losses are those of the kernel's failures: not where time is
// the programs' own, nor where what is late swaps reports.
func (s Setup) intervals() bool { return s.exact() && !s.Payload }

// Result is what a run has come to.
type Result struct {
	Events, Late, Lost, Gaps, Dropped uint64
	Inversions, Spilled, Refused      uint64
	Barriers, Passes                  uint64
	Rest                              uint64 // events delivered by Drain
	Markers                           uint64
	Hash                              uint64 // of all deliveries and counts
}

// world is one run.
type world struct {
	Setup
	kernel *kernel
	truth  *truth
	sched  *rand.Rand // of the scheduler and the consumer
	reader *perfbuf.Reader
	stream *perfbuf.Ordered

	barrier   *grace.Barrier // nil in slack mode
	began     uint64         // the clock when its round began
	starting  bool           // its round has not read the clock
	covered   uint64         // every event up to it is due
	waiter    *coroutine     // makes the barrier's rounds
	consumer  *coroutine
	weights   [2]int // the kernel's and the barrier's turns, in 100
	finishing bool   // the consumer is to come to its end
	draining  bool
	passes    uint64
	rest      uint64 // events that Drain has delivered
	failure   error  // of the consumer
	pretence  *pretence
}

// Run simulates a seed. An error says what is wrong, and wraps the property that does not hold.
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
	if err := w.open(); err != nil {
		return res, err
	}
	defer w.reader.Close()
	w.waiter, w.consumer = newCoroutine(w.rounds), newCoroutine(w.consume)
	defer w.waiter.stop()
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

func (w *world) open() error {
	k := w.kernel
	k.buffer = k.NewBuffer()
	k.buffer.Start = w.Start
	if !w.exact() {
		w.Stream.Mode = perfbuf.Slack(w.Slack)
	}
	if w.sched.IntN(2) == 0 {
		w.Stream.FlushEvery = time.Millisecond
	}
	o := perfbuf.Options{RingBytes: w.RingBytes, NoTime: w.NoTime, Wakeup: perfbuf.Wakeup{Events: 1}}
	if w.Payload {
		o.Time = perfbuf.PayloadTime(timeOffset)
	}
	r, _, err := seam.OpenReader(&seen{Buffer: k.buffer, w: w}, o)
	if err != nil {
		return err
	}
	w.reader = r.(*perfbuf.Reader)
	w.stream, err = w.reader.Ordered(w.Stream)
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
		default:
			w.consumer.resume()
		}
		if w.failure != nil {
			return w.failure
		}
	}
	w.finishing = true
	if w.Abandon && w.sched.IntN(2) == 0 {
		w.reader.Close() // maybe within a pass
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

// drain is what a user does at the end: programs are detached, those that run come to their ends.
func (w *world) drain() error {
	w.rest = w.truth.delivered
	defer func() { w.rest = w.truth.delivered - w.rest }()
	before := w.kernel.clock
	w.draining = true
	if err := w.stream.Drain(context.Background(), w.deliver); err != nil {
		return err
	}
	if at := w.watermark(); at < before-grace.DefaultGuard-1 {
		return fmt.Errorf("%w: it is %d after a Drain at %d", ErrWatermark, at, before)
	}
	if err := w.truth.complete(w.watermark()); err != nil {
		return err
	}
	return w.drained()
}

// drained checks that nothing is left.
func (w *world) drained() error {
	if w.kernel.running() {
		return fmt.Errorf("%w: Drain has not waited for the programs", ErrRest)
	}
	if err := w.missing(); err != nil {
		return err
	}
	for i := range w.CPUs {
		ring := w.kernel.buffer.Ring(i)
		if ring.Tail() != ring.Head() {
			return fmt.Errorf("%w: ring %d has its head at %#x, its tail at %#x", ErrRest, i, ring.Head(), ring.Tail())
		}
		l := &w.truth.losses[i]
		if err := l.check(w.Skew); err != nil {
			return err
		}
		failed := w.kernel.Counts(i).Lost
		if w.NoCounter {
			failed -= ring.Pending()
		}
		if l.reported != failed {
			return fmt.Errorf("%w: CPU %d: %d reported, %d failed", ErrLoss, i, l.reported, failed)
		}
	}
	if used := w.reader.Stats().SpillUsed; used != 0 {
		return fmt.Errorf("%w: %d bytes of copies", ErrRest, used)
	}
	return nil
}

// missing checks that what was not delivered was dropped.
func (w *world) missing() error {
	left := make([]uint64, w.CPUs)
	for _, r := range w.truth.pending {
		left[r.cpu]++
	}
	for i, s := range w.reader.Stats().Rings {
		if s.Dropped != left[i] {
			return fmt.Errorf("%w: CPU %d: %d were not delivered, %d dropped", ErrMissing, i, left[i], s.Dropped)
		}
	}
	return nil
}

// close closes everything, and checks the counts that remain.
func (w *world) close() (res Result, err error) {
	if w.sched.IntN(2) == 0 {
		w.stream.Close()
	}
	w.reader.Close()
	stats := w.reader.Stats()
	if err := w.counted(stats); err != nil {
		return res, err
	}
	t := w.truth
	res = Result{
		Events: t.delivered, Late: stats.Late, Gaps: t.gaps, Inversions: stats.Inversions,
		Spilled: stats.SpilledBytes, Refused: stats.SpillRefused, Barriers: stats.Barrier.Count,
		Passes: w.passes, Rest: w.rest, Markers: t.markers,
	}
	for _, r := range stats.Rings {
		res.Lost += r.Lost
		res.Dropped += r.Dropped
		t.hash.add(r.Samples, r.Dropped, r.Lost, r.LostRecords, r.Bytes, r.TailStores)
	}
	t.hash.add(res.Late, res.Inversions, res.Spilled, res.Barriers, res.Passes)
	res.Hash = uint64(t.hash)
	return res, nil
}

// counted checks what Stats says after Close against what the kernel did.
func (w *world) counted(stats perfbuf.Stats) error {
	var dropped, samples uint64
	for i, r := range stats.Rings {
		c := w.kernel.Counts(i)
		want := c.Attempted - c.Refused
		if w.NoCounter {
			want -= w.kernel.buffer.Ring(i).Pending()
		}
		if r.Samples+r.Dropped+r.Lost != want || r.Corrupt+r.Unknown > 0 {
			return fmt.Errorf("%w: CPU %d: %+v of %+v", ErrCounts, i, r, c)
		}
		dropped, samples = dropped+r.Dropped, samples+r.Samples
	}
	t := w.truth
	late := stats.Late == t.late || w.Stream.DropLate
	if samples != t.delivered || dropped != uint64(len(t.pending)) || !late {
		return fmt.Errorf("%w: %d delivered, %d late, %d left: %+v", ErrCounts, t.delivered, t.late, len(t.pending), stats)
	}
	return nil
}

// Add sums runs up. The sum of hashes depends on their order.
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
	r.Hash = r.Hash*31 + o.Hash
}

func (r Result) String() string {
	return fmt.Sprintf("%d events, %d late, %d dropped, %d lost in %d reports, %d inversions, %d bytes spilled (refused %d times), %d barriers, %d passes, %d markers",
		r.Events, r.Late, r.Dropped, r.Lost, r.Gaps, r.Inversions, r.Spilled, r.Refused, r.Barriers, r.Passes, r.Markers)
}
