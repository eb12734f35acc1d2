package engine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/stream"
)

// StreamOptions configures a Stream.
type StreamOptions struct {
	Unordered bool           // Order is ignored
	Order     stream.Options // except for the barrier, the clock and the end signal
	Barriers  grace.Set      // allowed
	MaxDelay  time.Duration  // of events: else programs shed lanes; 0: they do not
}

// Stream reads the rings of its sources, in order or not, and guards access to them. It has one
// user at a time, between acquire and release. All other methods may be called concurrently.
//
// Sources may come and go at any time. A user keeps its sources: release makes the changes.
//
// Invariant: while mu is held, the rings and the kernel of each source exist. The end of a reader
// takes it out, under mu, before unmapping.
type Stream struct {
	Order *stream.Ordered // nil: unordered
	unordered

	closing atomic.Bool
	halt    atomic.Bool // closing, or a source was closed
	halted  sync.Once
	gone    chan struct{} // closed with halt
	changed atomic.Bool   // the sources are not the wanted ones
	stirs   func() bool   // ends a sleep of an ordered stream
	clock   *clock
	waker   atomic.Pointer[waker] // the user's; nil: there are no sources

	opts    StreamOptions
	stepped kernel.Stepped // nil: no simulation

	mu      sync.Mutex
	used    bool         // it has a user
	wanted  []*source    // the sources from the next settle on
	sources []*source    // in use by the Order. The user keeps them open
	group   kernel.Group // of those wanted; nil: there was never more than one
	grouped *waker       // waits by group

	shedder *shedder // nil: none

	barrier  *grace.Barrier // of an exact stream; Order uses it from the next settle on
	programs bool           // the barrier waits for whole programs, which take times themselves
}

// NewStream makes a stream of these readers, whose pass is p. It claims their rings. Errors wrap
// stream.ErrBusy, or are os.ErrClosed, or say why exact mode or waiting for all is impossible. Then
// no reader is claimed.
func NewStream(p *stream.Pass, o StreamOptions, readers []*Reader) (*Stream, error) {
	return newStream(p, o, nil, readers)
}

// newStream makes a stream of all rings of the readers, or of ring only if that is not nil.
func newStream(p *stream.Pass, o StreamOptions, only *stream.Ring, readers []*Reader) (*Stream, error) {
	s := &Stream{opts: o, gone: make(chan struct{}), clock: &clock{}, used: true}
	first := readers[0]
	if only != nil { // else a stream would keep a reader alive that was removed and dropped
		s.only, s.of = only, first
	}
	defer s.release() // adds all sources at once
	s.clock.set(first.kernel)
	for _, r := range readers {
		s.programs = s.programs || r.opts.OwnTimes
	}
	s.stepped = first.Parts.Stepped
	if o.MaxDelay > 0 {
		s.shedder = &shedder{limit: o.MaxDelay, now: time.Now}
	}
	if o.Unordered {
		s.stirred = make(chan struct{}, 1)
		s.walk.Init(p, &s.halt, &s.flushes, s.endPass)
	} else {
		s.order(p, o.Order)
	}
	for _, r := range readers {
		if err := s.Add(r); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// order makes the stream an ordered one.
func (s *Stream) order(p *stream.Pass, o stream.Options) {
	o.Now, o.Halt, o.Changed = s.clock.now, &s.halt, &s.changed
	if s.stepped != nil {
		o.Yield = s.stepped.Yield
	}
	if o.Exact {
		o.Slack = grace.DefaultGuard + 1 // without barriers: see stream.Ordered.bound
	}
	s.Order = stream.NewOrdered(p, o, s.endPass)
	s.stirs = func() bool { return s.halt.Load() || s.Order.Stirred() } // once, to allocate nothing per sleep
}

// clock is that of a source, or of the last one: recordings have their own. A barrier's goroutine
// holds it, so it must not keep the stream or a reader alive.
type clock struct{ of atomic.Pointer[kernel.Kernel] }

func (c *clock) set(k kernel.Kernel) { c.of.Store(&k) }

// now asks again if the clock has changed meanwhile: that of a source that is taken out goes on
// without the others' events.
func (c *clock) now() uint64 {
	for {
		k := c.of.Load()
		if now := (*k).Now(); k == c.of.Load() {
			return now
		}
	}
}

// Close ends the stream and gives all sources back. It does not block: a current user gives them
// back.
func (s *Stream) Close() {
	s.closing.Store(true)
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used {
		s.settle()
	}
}

// stop ends all passes and waits.
func (s *Stream) stop() {
	s.halted.Do(func() {
		s.halt.Store(true)
		close(s.gone)
		if s.shedder != nil {
			s.shedder.close()
		}
		s.Interrupt()
	})
}

// Interrupt wakes the waiter so that it checks its context, flushes and changes.
func (s *Stream) Interrupt() {
	s.wakeUp()
	if w := s.waker.Load(); w != nil {
		w.poller.Interrupt()
	}
}

// acquire makes the caller the stream's only user, and keeps the rings mapped.
func (s *Stream) acquire() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.halt.Load():
		return os.ErrClosed
	case s.used:
		return fmt.Errorf("%w: another goroutine, or the function that receives its events, uses this Stream", stream.ErrBusy)
	}
	for i, src := range s.sources {
		if err := src.reader.Gate.Enter(); err != nil { // its Close also stops the stream
			for _, src := range s.sources[:i] {
				src.reader.Gate.LeaveAtOnce()
			}
			return err
		}
	}
	s.used = true
	return nil
}

// release undoes acquire, and makes the changes requested meanwhile.
func (s *Stream) release() {
	s.mu.Lock()
	had := s.sources
	s.used = false
	s.settle()
	has := s.sources
	s.mu.Unlock()
	for _, src := range had {
		// The stream does not wait for the end of a removed reader, except in a simulation, which
		// has no other goroutine.
		if s.halt.Load() || slices.Contains(has, src) || s.stepped != nil && s.stepped.Yield() {
			src.reader.Gate.Leave()
		} else {
			src.reader.Gate.LeaveAtOnce()
		}
	}
}

// endPass is release at the end of a pass.
func (s *Stream) endPass() {
	if s.shedder != nil {
		s.shedder.passed(s.latest(), s.clock.now(), s.sources)
	}
	s.release()
}

// latest is the time of the latest event delivered, 0 if none had a time.
func (s *Stream) latest() uint64 {
	if s.Order != nil {
		return s.Order.Latest()
	}
	return s.walk.Latest()
}

// Flush asks for all events in the sources' rings, followed by a marker.
func (s *Stream) Flush() error {
	if s.halt.Load() {
		return os.ErrClosed
	}
	s.allFlushes().Ask(s.clock.now())
	if s.only == nil {
		s.Interrupt()
		return nil
	}
	if err := s.of.Gate.Enter(); err != nil {
		return err
	}
	s.of.waker.flush()
	s.of.Gate.LeaveAtOnce()
	return nil
}

// Wait blocks until a round would deliver something. If all barriers fail, its error wraps
// barriers.
func (s *Stream) Wait(ctx context.Context, barriers error) error {
	err := s.use(ctx, barriers, false)
	if err == nil {
		s.release()
	}
	return err
}

// WaitAndBegin is Wait and Begin, without a time between them in which another could become the
// stream's user.
func (s *Stream) WaitAndBegin(ctx context.Context, barriers error) error {
	return s.use(ctx, barriers, true)
}

// use is Wait that leaves the caller the stream's user, unless it fails. It may begin a pass.
func (s *Stream) use(ctx context.Context, barriers error, begin bool) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := s.acquire(); err != nil {
			return err
		}
		var due bool
		var err error
		if s.Order == nil {
			due, err = s.awaitUnordered(ctx)
		} else {
			due, err = s.awaitInOrder(ctx, barriers)
		}
		if due {
			if begin {
				s.begin(s.waker.Load())
			}
			return nil
		}
		s.release()
		if err != nil {
			return err
		}
	}
}

// awaitInOrder is use by the stream's user. It returns false if it fails, or sources change first.
func (s *Stream) awaitInOrder(ctx context.Context, barriers error) (due bool, err error) {
	s.Order.StartWait()
	for !s.changed.Load() {
		step, err := s.Order.Step()
		waker := s.waker.Load()
		switch {
		case err != nil:
			return false, fmt.Errorf("%w: %w", barriers, err)
		case step.Do == stream.Deliver:
			return true, nil
		case step.Do == stream.Pause && waker != nil && waker.bed != nil:
			if err = waker.sleep(ctx, step.For, s.stirs); err == nil && s.halt.Load() {
				err = os.ErrClosed
			}
		case step.Do != stream.Await || waker == nil:
			err = s.Order.Sleep(ctx, cmp.Or(step.For, time.Hour), s.gone)
		default:
			err = waker.wait(ctx, s.sources, step.For)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}
