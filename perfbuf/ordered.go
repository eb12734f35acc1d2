package perfbuf

import (
	"context"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/order"
	"github.com/ringfold/ringfold/internal/wake"
)

// Ordered is one stream of the events of all CPUs, and of all its sources, in timestamp order. Make one with
// [Reader.Ordered], or of several readers with [Merge]. Events stay in their rings until
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
	opts  OrderOptions
	order *order.Stream
	batch Batch

	busy    atomic.Bool // a pass or a wait is running
	closing atomic.Bool
	halt    atomic.Bool // the same, or the reader of a source is closed
	halted  sync.Once
	gone    chan struct{} // closed with halt

	changed atomic.Bool // there are changes
	mu      sync.Mutex  // held while what follows is changed, which takes busy too, or a reader's end
	changes []func()    // to sources, asked for and not made yet
	sources []*source   // copied when changed
	inside  []*source   // those that the caller who has set busy keeps open
	parts   []wake.Part // their rings
	waker   atomic.Pointer[wake.Waker]
	group   kernel.Group // what that waits by; nil: it is the only source's own
	ended   bool         // nothing is changed any more

	barrier  *grace.Barrier // in exact mode
	programs bool           // that waits for whole programs, which take times themselves
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
// dropped in Stats. To read them first, call [Ordered.Drain] or [Ordered.ForEachPending]. Readers stay
// open, and their rings may be read in other ways. Close does not block: a running Wait or pass ends with
// os.ErrClosed. The error is always nil.
func (s *Ordered) Close() error {
	if s.closing.CompareAndSwap(false, true) {
		s.stop()
	}
	if s.busy.CompareAndSwap(false, true) { // for good
		s.disband()
	}
	return nil
}

// stop ends passes and waits.
func (s *Ordered) stop() {
	s.halted.Do(func() {
		s.halt.Store(true)
		close(s.gone)
		s.interrupt()
	})
}

// acquire makes the caller the stream's only user, and keeps the rings mapped.
func (s *Ordered) acquire() error {
	if !s.busy.CompareAndSwap(false, true) {
		if s.halt.Load() {
			return os.ErrClosed
		}
		return fmt.Errorf("%w: another goroutine, or the function that events are handed to, uses this Ordered stream", ErrBusy)
	}
	if err := s.enter(); err != nil {
		s.idle()
		return err
	}
	return nil
}

func (s *Ordered) release() {
	inside := s.inside
	s.idle()
	for _, src := range inside {
		src.reader.leave()
	}
}

// idle lets another be the stream's user.
func (s *Ordered) idle() {
	s.busy.Store(false)
	if s.closing.Load() {
		s.Close() // which could not finish while we were busy
	}
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

// begin starts the delivery of what is due.
func (s *Ordered) begin() (*Batch, error) { return s.beginRound((*order.Stream).Begin) }

// beginAll starts the delivery of all that the rings hold. waited is what quiesce has returned, or 0.
func (s *Ordered) beginAll(waited uint64) (*Batch, error) {
	return s.beginRound(func(o *order.Stream) { o.BeginAll(waited) })
}

func (s *Ordered) beginRound(begin func(*order.Stream)) (*Batch, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	s.batch.pass.Err = nil
	begin(s.order)
	return &s.batch, nil
}

// Drain is ForEachPending for the end of a stream. Detach your programs and end your Run first. Drain waits
// until running programs have ended (on sleepable ones, see [PayloadTime]), and then calls f for all that
// is left. So the stream ends complete, in either mode, and no event is late in exact mode.
//
// It blocks for an RCU grace period, usually some ms, and then for as long as f takes. Errors are those
// of ForEach, context.Cause(ctx), and the reason why it cannot wait. After an error nothing is lost, and
// ForEachPending still works.
func (s *Ordered) Drain(ctx context.Context, f func(Event) error) error {
	waited, err := s.quiesce(ctx)
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

func (s *Ordered) interrupt() {
	s.order.WakeUp()
	if w := s.waker.Load(); w != nil {
		w.Interrupt()
	}
}
