package perfbuf

import (
	"context"
	"fmt"
	"iter"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/order"
	"github.com/ringfold/ringfold/internal/walk"
)

// Ordered is one stream of the events of all CPUs, in timestamp order. Events stay in their rings until
// they are delivered, unless a ring fills up: see [Spill].
//
// [Event.Time] never decreases, except at events marked [Event.Late]. Exact mode has no late events. With
// slack, an earlier event may follow a marker ([KindFlushed]). A loss comes just before the sample
// that reported it. A record whose time lies more than a second in the future is corrupt: see
// [KindCorrupt].
//
// Times of different CPUs are as comparable as the kernel's clock is exact. Order in time is not
// causality.
//
// An open stream holds all rings: other reads of them return [ErrBusy]. Use it from one goroutine at a
// time. Close may be called from any.
type Ordered struct {
	reader  *Reader
	opts    OrderOptions
	barrier *grace.Barrier // in exact mode

	busy    atomic.Bool // a pass or a wait is running
	closing atomic.Bool
	halt    atomic.Bool // the same, or the reader is closed
	gone    chan struct{}

	// For the caller that has set busy.
	order *order.Stream
	rings []*Ring // as order has them
	batch Batch
	pass  *walk.Pass // of batch
	round round
}

// Ordered opens a stream of the events that the rings hold and of those to come. Errors are invalid
// options, [ErrBusy] if the rings are being read, and os.ErrClosed.
//
// Exact mode also fails if the process has no way to wait for an RCU grace period. The error says what
// was tried: see [Barriers]. The first exact stream of a process blocks for 20 to 50 ms, in which it
// compares these and proves [OpenTree]; on a busy machine that takes up to 0.4 s. Later ones block for a
// grace period.
func (r *Reader) Ordered(o OrderOptions) (*Ordered, error) {
	o, err := o.effective(len(r.all()), r.opts.RingBytes, r.opts.NoTime)
	if err != nil {
		return nil, err
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	if err := r.walk.Claim(); err != nil {
		return nil, err
	}
	s := &Ordered{reader: r, opts: o, gone: make(chan struct{})}
	s.round.stream = s
	s.pass = &s.batch.pass
	s.pass.Halt, s.pass.Walk = &s.halt, &s.round
	if !o.Mode.guess {
		if s.barrier, err = r.newBarrier(o); err != nil {
			r.walk.Disclaim()
			return nil, err
		}
		r.barrier.Store(s.barrier)
		runtime.AddCleanup(s, func(b *grace.Barrier) { b.Close() }, s.barrier) // which has a goroutine
	}
	s.order = order.New(r.kernel, (*orderedRings)(s), &r.counts.order, r.ordering(o, s.barrier))
	r.stream.Store(s)
	if r.walk.Closed() { // perhaps too early to know of the stream
		s.halt.Store(true)
	}
	return s, nil
}

// Watermark returns the time up to which the stream is complete, in ns of CLOCK_MONOTONIC: f has
// returned from every event with this time or an earlier one, or DropLate has dropped it. In exact mode no such event
// will still come; in slack mode that is a guess. It never goes back, is 0 before the first pass, and
// stays as it is after Close.
//
// It moves on at the end of a pass, before the markers of that pass. A pass that ends early, as f fails, panics or
// stops, leaves it before the first event that f did not get. While nothing happens, there are no passes:
// see [OrderOptions].FlushEvery. [Ordered.ForEachPending] delivers events beyond it and
// proves nothing. After [Ordered.Drain] and [Ordered.Shutdown], in either mode, it is at most the error of
// the clocks, some 10 µs, before the time of the call.
//
// It is about events, not about outputs: what is lost before it may be reported after it, see [Event.After]. Nor is it about
// corrupt memory, which has no time of its own, and samples without a time of theirs under [PayloadTime].
//
// It is one atomic load, and may be called from any goroutine at any time. Who sees a time also sees what f did
// before.
func (s *Ordered) Watermark() uint64 { return s.order.Complete() }

// Options returns the options in effect, with defaults filled in.
func (s *Ordered) Options() OrderOptions { return s.opts }

// Close ends the stream. It drops events that the stream has seen and not delivered, and counts them as
// dropped in Stats. To read them first, call [Ordered.Drain] or [Ordered.ForEachPending]. The Reader stays
// open, and its rings may be read in other ways. Close does not block: a running Wait or pass ends with
// os.ErrClosed. The error is always nil.
func (s *Ordered) Close() error {
	if s.closing.CompareAndSwap(false, true) {
		s.halt.Store(true)
		close(s.gone)
		s.reader.kernel.Interrupt()
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
	s.drop()
	s.order.Abandon()
	r.stream.Store(nil)
	r.walk.Disclaim()
}

// drop counts what the stream holds as dropped, and leaves what it knows of losses to the rings.
func (s *Ordered) drop() {
	for i, ring := range s.rings {
		losses := s.order.Losses(i)
		ring.walk.Counts.Dropped.Add(uint64(s.order.Held(i)))
		ring.walk.Counts.Lost.Store(losses.Known) // those whose loss events are dropped too
		ring.walk.Advance, ring.suspect = losses.Advance, losses.Suspect
	}
}

// acquire makes the caller the stream's only user.
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

// ForEach calls f for every event that is due, in order, without waiting. See [Fold] for what ends it. It
// stores tails at its end, and whenever it has read an eighth of a ring.
func (s *Ordered) ForEach(f func(Event) error) error { return forEach(s, f) }

// ForEachPending calls f for every event that the rings hold, in order, whether due or not, and for every
// loss that the kernel knows of. On Linux 6.0 and newer these include losses that no record has reported
// yet; asking for them interrupts each CPU. Events that come later with earlier times are late, in exact
// mode too: to miss none, see [Ordered.Drain].
func (s *Ordered) ForEachPending(f func(Event) error) error {
	return s.all(0, f)
}

// all delivers what the rings hold. waited is what quiesce has returned, or 0.
func (s *Ordered) all(waited uint64, f func(Event) error) error {
	batch, err := s.beginAll(waited)
	if err != nil {
		return err
	}
	defer batch.pass.End()
	return unlessStopped(each(context.Background(), &batch.pass, f))
}

// Drain is ForEachPending for the end of a stream. Detach your programs and end your Run first. Drain waits
// until running programs have ended (on sleepable ones, see [PayloadTime]), and then calls f for all that
// is left. So the stream ends complete, in either mode, and no event is late in exact mode.
//
// It blocks for an RCU grace period, usually some ms, and then for as long as f takes. Errors are those
// of ForEach, context.Cause(ctx), and the reason why it cannot wait. After an error nothing is lost, and
// ForEachPending still works.
func (s *Ordered) Drain(ctx context.Context, f func(Event) error) error {
	if s.closing.Load() {
		return os.ErrClosed
	}
	waited, err := s.reader.quiesce(ctx)
	if err != nil {
		return err
	}
	return s.all(waited, f)
}

// Run calls f for each event as it becomes due, and waits in between. Errors are those of [Reader.Run].
func (s *Ordered) Run(ctx context.Context, f func(Event) error) error { return run(ctx, s, f) }

// Events iterates over events as they become due, and waits in between. Errors are those of
// [Reader.Events].
func (s *Ordered) Events(ctx context.Context) iter.Seq2[Event, error] { return stream(ctx, s) }

// Records iterates over copies of events as they become due, and waits in between. Errors are those of
// [Reader.Events].
func (s *Ordered) Records(ctx context.Context) iter.Seq2[Record, error] { return records(ctx, s) }

func (s *Ordered) interrupt() { s.reader.kernel.Interrupt() }
