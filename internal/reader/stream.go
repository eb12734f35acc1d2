package reader

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/order"
	"github.com/ringfold/ringfold/internal/wake"
	"github.com/ringfold/ringfold/internal/walk"
)

// StreamOptions says what a Stream is to be.
type StreamOptions struct {
	Order    order.Options // but for the barrier, the clock, and what tells of the stream's end
	Exact    bool
	Barriers grace.Set // allowed
}

// Stream is the order over the rings of its sources, and who may do what with it. It has one user at a time, between Acquire and
// Release. All other methods may be called from anywhere.
type Stream struct {
	Order *order.Stream
	opts  StreamOptions

	busy    atomic.Bool // it has a user
	closing atomic.Bool
	halt    atomic.Bool // the same, or a source is closed
	halted  sync.Once
	gone    chan struct{} // closed with halt

	changed atomic.Bool // there are changes
	mu      sync.Mutex  // held while what follows is changed, which takes busy too, or the end of a source
	changes []func()    // to the sources, asked for and not made yet
	sources []*source   // copied when changed
	inside  []*source   // those that the user keeps open
	parts   []wake.Part // their rings
	waker   atomic.Pointer[wake.Waker]
	group   kernel.Group // what that waits by; nil: it is the only source's own
	ended   bool         // nothing changes from then on

	barrier  *grace.Barrier // of an exact stream
	programs bool           // that waits for whole programs, which take times themselves
}

// NewStream makes a stream of these readers, whose pass is p. It claims their rings. Errors wrap walk.ErrBusy, or are os.ErrClosed, or say
// why exact mode cannot be; no reader is claimed then.
func NewStream(p *walk.Pass, o StreamOptions, readers []*Reader) (*Stream, error) {
	first := readers[0]
	s := &Stream{opts: o, gone: make(chan struct{})}
	for _, r := range readers {
		s.programs = s.programs || r.opts.OwnTimes
	}
	o.Order.Now, o.Order.Halt, o.Order.Changed = first.Kernel.Now, &s.halt, &s.changed
	if first.stepped != nil {
		o.Order.Yield = first.stepped.Yield
	}
	if o.Exact {
		o.Order.Slack = grace.DefaultGuard + 1 // for sources that need no barrier: what it covers, order.Stream.bound does
	}
	s.Order = order.New(o.Order)
	s.Order.SetPass(p, s.Release)
	for _, r := range readers {
		if err := s.Add(r); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Close ends the stream and gives all sources back. It does not block: if it has a user, that does it.
func (s *Stream) Close() {
	if s.closing.CompareAndSwap(false, true) {
		s.stop()
	}
	if s.busy.CompareAndSwap(false, true) { // for good
		s.disband()
	}
}

// Closing reports whether Close was called.
func (s *Stream) Closing() bool { return s.closing.Load() }

// stop ends passes and waits.
func (s *Stream) stop() {
	s.halted.Do(func() {
		s.halt.Store(true)
		close(s.gone)
		s.Interrupt()
	})
}

// Interrupt has who waits look at its context, at flushes, and at changes.
func (s *Stream) Interrupt() {
	s.Order.WakeUp()
	if w := s.waker.Load(); w != nil {
		w.Interrupt()
	}
}

// Acquire makes the caller the stream's only user, and keeps the rings mapped.
func (s *Stream) Acquire() error {
	if !s.busy.CompareAndSwap(false, true) {
		if s.halt.Load() {
			return os.ErrClosed
		}
		return fmt.Errorf("%w: another goroutine, or the function that receives its events, uses this Ordered stream", walk.ErrBusy)
	}
	if err := s.enter(); err != nil {
		s.idle()
		return err
	}
	return nil
}

// Release undoes Acquire.
func (s *Stream) Release() {
	inside := s.inside
	s.idle()
	for _, src := range inside {
		src.reader.Gate.Leave()
	}
}

// idle lets another be the stream's user.
func (s *Stream) idle() {
	s.busy.Store(false)
	if s.closing.Load() {
		s.Close() // which could not finish while we were busy
	}
}

// Wait blocks until a round would deliver something. barriers makes the error when all barriers fail.
func (s *Stream) Wait(ctx context.Context, barriers error) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := s.Acquire(); err != nil {
			return err
		}
		if due, err := s.await(ctx, barriers); due || err != nil {
			return err
		}
	}
}

// await is Wait, of the stream's user, whom it releases. It returns false if the sources are to change first.
func (s *Stream) await(ctx context.Context, barriers error) (due bool, err error) {
	defer s.Release()
	s.Order.StartWait()
	for !s.changed.Load() {
		step, err := s.Order.Step()
		waker := s.waker.Load()
		switch {
		case err != nil:
			return false, fmt.Errorf("%w: %w", barriers, err)
		case step.Do == order.Deliver:
			return true, nil
		case step.Do == order.Sleep:
			err = s.Order.Sleep(ctx, step.For, s.gone)
		case waker == nil: // there are no sources
			err = s.Order.Sleep(ctx, time.Hour, s.gone)
		default:
			err = waker.Wait(ctx, s.parts, step.For)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// Quiesce is Reader.Quiesce for the programs of all sources.
func (s *Stream) Quiesce(ctx context.Context) (since uint64, err error) {
	if s.closing.Load() {
		return 0, os.ErrClosed
	}
	for _, r := range s.Readers() { // a grace period is for all
		return r.Quiesce(ctx)
	}
	return 0, nil
}
