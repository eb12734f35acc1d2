package perfbuf

import (
	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
)

// Ordered is one stream of the events of all CPUs, in the order of their times. Events stay in
// their rings until they are delivered, unless a ring fills up: see [Spill].
//
// What is promised: events come in non-decreasing order of [Event.Time], those marked [Event.Late]
// excepted; in exact mode there are none of these. A [Reader.Flush]'s marker does not count: with slack,
// an event that is earlier may follow it. Times of different CPUs are comparable within
// the error of the kernel's clock; order in time is not causality. Losses have their place in the
// stream, before the sample that reported them. A record whose time lies more than a second in the
// future is corrupt: see [KindCorrupt].
//
// While it is open, a stream holds all rings: other reads of them return [ErrBusy]. It is for one
// goroutine at a time, except for Close.
type Ordered struct {
	reader  *Reader
	merger  *merge.Merger
	opts    OrderOptions
	barrier *grace.Barrier // in exact mode

	busy    atomic.Bool // a pass or a wait is running
	closing atomic.Bool
	halt    atomic.Bool // the same, or the reader is closed
	gone    chan struct{}
	nudged  chan struct{} // of capacity 1: somebody has called Flush

	// For whoever is busy.
	rings     []*Ring  // as the merger's
	heads     []uint64 // as of the latest scan
	before    []uint64 // as of the one before it
	scanned   uint64   // when the latest scan was, by the clock
	elapsed   uint64   // ns between the two
	tallies   []tally
	with      *Ring        // poison build: ring of the event that is with the user
	batch     Batch        // with the user
	samples   []raw.Record // of the batch, if they are samples in their places
	of        []*Ring      // whose they are
	indices   []int        // of these among the reader's rings
	late      *Ring        // of the batch, if it is late
	lastRound uint64
	due       uint64 // the watermark of the round
	asked     uint64 // barriers asked for cover every time below it
	patience  int    // events until next looks how full the rings are
	visits    []visit
	silent    bool // a ring may have lost events, and is to be asked about it after a while
	timer     *time.Timer
}

// Ordered makes a stream of the events that the rings hold and of those to come. It fails if the
// options do not fit, with [ErrBusy] if the rings are being read, and with os.ErrClosed. In exact
// mode it also fails if there is no way to wait for a grace period; the error says what was tried:
// an update of a map in a map (maybe_wait_bpf_programs in kernel/bpf/syscall.c), and
// membarrier(MEMBARRIER_CMD_GLOBAL). It then blocks for a grace period, some ms as a rule.
func (r *Reader) Ordered(o OrderOptions) (*Ordered, error) {
	o, err := o.effective(len(r.all()), r.opts.RingBytes, r.opts.NoTime)
	if err != nil {
		return nil, err
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	rings, err := r.claimAll()
	if err != nil {
		return nil, err
	}
	s := &Ordered{
		reader:   r,
		opts:     o,
		gone:     make(chan struct{}),
		nudged:   make(chan struct{}, 1),
		timer:    time.NewTimer(time.Hour),
		patience: patience,
		samples:  raw.NewBatch(orderedBatch),
		of:       make([]*Ring, orderedBatch),
		indices:  make([]int, orderedBatch),
	}
	if !o.Mode.guess {
		if s.barrier, err = r.newBarrier(o); err != nil {
			r.disclaimAll()
			return nil, err
		}
		r.barrier.Store(s.barrier)
		s.cleanUp()
	}
	raws := make([]*raw.Ring, len(rings))
	for i, ring := range rings {
		raws[i] = ring.raw
	}
	s.merger = merge.New(raws, merge.Options{Key: o.Time.key(), Spill: max(o.Spill.Bytes, 0)}, s.committed)
	for _, ring := range rings {
		s.take(ring)
	}
	r.stream.Store(s)
	if r.closed.Load() { // perhaps too early to know of the stream
		s.halt.Store(true)
	}
	return s, nil
}

// take makes a ring the stream's that the merger has.
func (s *Ordered) take(ring *Ring) {
	i := len(s.rings)
	s.rings = append(s.rings, ring)
	s.heads = append(s.heads, s.merger.Freed(i))
	s.before = append(s.before, s.merger.Freed(i))
	s.tallies = append(s.tallies, tally{})
	s.merger.Expect(i, ring.advance)
	ring.reported = ring.counts.lost.Load()
}

// adopt takes in the rings of CPUs that have come online since, which addRing has made the stream's. A round
// must not be under way.
func (s *Ordered) adopt() {
	for _, ring := range s.reader.all()[len(s.rings):] {
		s.merger.Add(ring.raw)
		s.take(ring)
	}
}

// Options returns the options in effect, defaults filled in.
func (s *Ordered) Options() OrderOptions { return s.opts }

// Close ends the stream. Events that it has seen and not delivered are dropped, and counted as such
// in Stats: [Ordered.Drain] or [Ordered.Rest] has them first. The Reader stays open, and the rings
// may be read by other means. Close does not block: a running Wait or pass ends with os.ErrClosed.
// The error is always nil.
func (s *Ordered) Close() error {
	if s.closing.CompareAndSwap(false, true) {
		s.halt.Store(true)
		close(s.gone)
		s.reader.poll.interrupt()
		if s.barrier != nil {
			s.barrier.Close()
		}
	}
	if s.busy.CompareAndSwap(false, true) { // for good
		s.disband()
	}
	return nil
}

func (s *Ordered) disband() {
	r := s.reader
	if r.enter() != nil {
		return // the Reader is closed too, and counts what was held
	}
	defer r.leave()
	for i, ring := range s.rings {
		ring.counts.dropped.Add(uint64(s.merger.Held(i)))
		ring.counts.lost.Store(s.known(i)) // those whose loss events are dropped too
		ring.advance = s.merger.Advance(i)
		s.tallies[i].flush(&ring.counts)
	}
	s.merger.Abandon()
	r.counts.spillUsed.Store(s.merger.Spilled())
	r.stream.Store(nil)
	r.disclaimAll()
}

// acquire makes the caller the only one in the stream.
func (s *Ordered) acquire() error {
	if s.closing.Load() {
		return os.ErrClosed
	}
	if err := s.reader.enter(); err != nil {
		return err
	}
	if !s.busy.CompareAndSwap(false, true) {
		s.reader.leave()
		if s.closing.Load() {
			return os.ErrClosed
		}
		return fmt.Errorf("%w: another goroutine, or the function that events are handed to, uses this Ordered stream", ErrBusy)
	}
	return nil
}

func (s *Ordered) release() {
	s.busy.Store(false)
	if s.closing.Load() {
		s.Close() // which could not finish while we were busy
	}
	s.reader.leave()
}

// watermark returns the time up to which events are due. Heads must be loaded after it: in exact
// mode because what it covers is published now, in slack mode because the clock goes on meanwhile.
func (s *Ordered) watermark() uint64 {
	if s.barrier != nil {
		return s.barrier.Watermark()
	}
	now := s.reader.clock()
	return now - min(uint64(s.opts.Mode.slack), now)
}

// earliest is the time that is to be covered next: of an event that is held, or of a Flush.
func (s *Ordered) earliest() (time uint64, ok bool) {
	time, ok = s.merger.Earliest()
	if f := s.reader.flush.Load(); f != nil && (!ok || f.time < time) {
		return f.time, true
	}
	return time, ok
}

func (s *Ordered) begin(p *pass) error { return s.round(p, false) }

// round starts the delivery of what is due, or of all that the rings hold.
func (s *Ordered) round(p *pass, all bool) error {
	if err := s.acquire(); err != nil {
		return err
	}
	watermark := s.watermark()
	s.scan()
	if all {
		s.askAll()
		watermark = math.MaxUint64 - 1
	}
	s.lastRound, s.due = s.scanned, watermark
	s.merger.Begin(watermark)
	s.reader.counts.passes.Add(1)
	p.reader, p.halt, p.ordered = s.reader, &s.halt, s
	return nil
}

// orderedBatch is how many events are merged at a time: as many as the merger touches ahead.
const orderedBatch = min(batchSize, 16)

// more returns the next events, nil at the end of the round.
func (s *Ordered) more(p *pass) *Batch {
	s.settle()
	if poison && s.with != nil {
		s.with.expire()
	}
	for {
		if s.halt.Load() {
			p.err = os.ErrClosed
			return nil
		}
		if s.patience < 0 {
			s.look()
		}
		if n := s.merger.Batch(s.samples, s.indices); n > 0 {
			for j, i := range s.indices[:n] {
				s.of[j] = s.rings[i]
			}
			if poison {
				s.with = s.of[0]
				s.with.divert(&s.samples[0])
			}
			s.batch = Batch{of: s.of[:n], recs: s.samples[:n]}
			return &s.batch
		}
		s.patience--
		it := s.merger.Next()
		if it == nil {
			return s.marker(p)
		}
		ring := s.rings[it.Ring]
		if !s.admit(ring, it) {
			continue
		}
		if poison {
			s.with = ring
			if it.Kind == raw.Sample {
				ring.divert(&it.Record)
			}
		}
		s.batch = Batch{ring: ring, recs: unsafe.Slice(&it.Record, 1)} // invariant: a variable is an array of one
		return &s.batch
	}
}

// settle takes into account what has been taken of a batch, and gives the rest back to the merger.
func (s *Ordered) settle() {
	if s.late != nil {
		s.late.late = false
		s.late = nil
	}
	b := &s.batch
	if b.of == nil {
		return
	}
	for _, i := range s.indices[:b.taken] {
		s.tallies[i].samples++
	}
	s.patience -= b.taken
	s.merger.Undo(b.recs, s.indices, b.taken)
	*b = Batch{}
}

// marker returns the event that answers a Flush, if all that it asked for has been delivered.
func (s *Ordered) marker(p *pass) *Batch {
	f := s.reader.flush.Load()
	if f == nil || f.time > s.due {
		return nil
	}
	if first, held := s.merger.Earliest(); held && first <= f.time {
		return nil // the round has ended early
	}
	return p.flushed(f, max(f.time, s.merger.Last()))
}

// admit takes into account what did not come in a batch, and reports whether to deliver it.
func (s *Ordered) admit(ring *Ring, it *merge.Item) bool {
	if it.Late {
		c := &s.reader.counts
		c.late.Add(1)
		if by := s.merger.Last() - it.Key; by > c.maxLateness.Load() {
			c.maxLateness.Store(by)
		}
		if s.opts.DropLate && it.Kind == raw.Sample {
			ring.counts.dropped.Add(1)
			return false
		}
	}
	if ring.late = it.Late; it.Late {
		s.late = ring
	}
	if it.Kind != raw.Sample {
		it.Time = it.Key
		ring.after = it.After
	}
	s.tallies[it.Ring].add(&it.Record)
	return true
}

// committed is told by the merger that a ring's tail was published.
func (s *Ordered) committed(i int, bytes uint64) {
	c := &s.rings[i].counts
	c.commits.Add(1)
	c.bytes.Add(bytes)
	s.tallies[i].flush(c)
	// It may have filled up since the scan, and not be full any more at the next.
	ring := s.rings[i]
	s.press(ring, ring.raw.Head()-s.merger.Freed(i)+bytes)
	s.reader.pause()
}

func (s *Ordered) end(p *pass) {
	s.settle()
	if poison && s.with != nil {
		s.with.expire()
	}
	s.with = nil
	s.merger.End()
	s.reader.counts.spillUsed.Store(s.merger.Spilled())
	for i := range s.tallies {
		s.tallies[i].flush(&s.rings[i].counts)
	}
	if s.barrier != nil {
		if first, held := s.earliest(); held {
			s.want(first)
		}
	}
	s.release()
}

// ForEach calls f for every event whose turn has come, in order, without waiting. See [TryFold] for
// what ends it. Tails are stored at its end, and by eighths of a ring on the way.
func (s *Ordered) ForEach(f func(Event) error) error { return forEach(s, f) }

// Rest calls f for every event that the rings hold, in order, without waiting for any to come of
// age, and for the losses that the kernel knows of: from Linux 6.0 on also those of rings at rest that
// no record has reported yet, for which it interrupts each CPU. Events that come after it with earlier
// times are late, in exact mode too: to miss none, see [Ordered.Drain].
func (s *Ordered) Rest(f func(Event) error) error {
	var p pass
	if err := s.round(&p, true); err != nil {
		return err
	}
	defer p.end()
	return each(&p, f)
}

// Drain is Rest for the end: after the caller has detached its programs and ended its Run, it waits
// until programs that had begun have ended (on sleepable ones, see [PayloadTime]), and then calls f for
// all that is left. So the stream ends complete, in either mode, and none is late in exact mode. It blocks for an RCU grace period, some
// ms as a rule, and then for as long as f takes. Errors are those of ForEach, context.Cause(ctx), and
// what keeps it from waiting; nothing is lost then, and Rest is still possible.
func (s *Ordered) Drain(ctx context.Context, f func(Event) error) error {
	if s.closing.Load() {
		return os.ErrClosed
	}
	if err := s.reader.quiesce(ctx, s.opts.Sweep); err != nil {
		return err
	}
	return s.Rest(f)
}

// Run calls f for each event as its turn comes. It returns what [Reader.Run] does.
func (s *Ordered) Run(ctx context.Context, f func(Event) error) error { return run(ctx, s, f) }

// Events iterates over events as their turns come, waiting in between. Errors are those of [Reader.Events].
func (s *Ordered) Events(ctx context.Context) iter.Seq2[Event, error] { return stream(ctx, s) }

// Records iterates over copies of events as their turns come, waiting in between. Errors are those
// of [Reader.Events].
func (s *Ordered) Records(ctx context.Context) iter.Seq2[Record, error] { return records(ctx, s) }
