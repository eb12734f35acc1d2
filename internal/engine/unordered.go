package engine

import (
	"context"
	"errors"
	"os"

	"github.com/ringfold/ringfold/internal/stream"
)

// unordered replaces the Order of an unordered Stream: passes follow its readers' schedules, or
// read one ring.
type unordered struct {
	walk    stream.Unordered // no pointer: nearer, after a pause
	flushes stream.Flushes
	rings   []*stream.Rings // of the sources
	stirred chan struct{}   // of capacity 1: ends a wait without sources

	only *stream.Ring // the only ring to read; nil: all rings of the sources
	of   *Reader      // the reader of that ring
}

// NewRingStream makes a stream of one ring of r, whose pass is p. It claims that ring. Errors wrap
// stream.ErrBusy, or are os.ErrClosed.
func NewRingStream(p *stream.Pass, r *Reader, ring *stream.Ring) (*Stream, error) {
	return newStream(p, StreamOptions{Unordered: true}, ring, []*Reader{r})
}

// errOneRing is returned for calls that concern all rings of a reader.
var errOneRing = errors.New("perfbuf: this is a Stream of one ring")

// claim makes the stream the only one to read a reader's rings, or the one ring.
func (s *Stream) claim(r *Reader) error {
	if s.only != nil {
		return s.only.Claim(&s.flushes)
	}
	return r.Rings.Claim()
}

func (s *Stream) disclaim(r *Reader) {
	if s.only != nil {
		s.only.Disclaim()
		return
	}
	r.Rings.Disclaim()
}

// hold makes the reader know a stream that has claimed its rings.
func (s *Stream) hold(src *source) {
	if s.only != nil {
		src.reader.alone.Store(s, nil)
		return
	}
	src.reader.source.Store(src)
}

func (s *Stream) letGo(src *source) {
	if s.only != nil {
		src.reader.alone.Delete(s)
		return
	}
	src.reader.source.Store(nil)
}

// awaitUnordered is awaitInOrder without an order.
func (s *Stream) awaitUnordered(ctx context.Context) (due bool, err error) {
	waker := s.waker.Load()
	switch {
	case waker == nil:
		err = s.awaitSources(ctx)
	case s.only != nil:
		err = waker.waitRing(ctx, s.only.Index(), s.gone)
	default:
		err = waker.wait(ctx, s.sources, 0)
	}
	return err == nil && (waker != nil || s.Flushing()) && !s.changed.Load(), err
}

// awaitSources blocks until there are sources or a flush.
func (s *Stream) awaitSources(ctx context.Context) error {
	select {
	case <-s.stirred:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.gone:
		return os.ErrClosed
	}
}

// Begin starts a pass over the due events. The caller is the stream's user until the pass ends.
func (s *Stream) Begin() error {
	err := s.acquire()
	if err == nil {
		s.begin(nil)
	}
	return err
}

// begin is Begin by the stream's user, whom a waker may have let wait. Beside a stream of one ring
// that waker serves others, so only one of all rings asks how the wait has ended.
func (s *Stream) begin(waited *waker) {
	switch {
	case s.Order != nil:
		s.Order.Begin()
	case s.only != nil:
		s.walk.BeginOne(s.only)
	default:
		s.walk.Begin(s.rings, waited != nil && waited.roused)
	}
}

// BeginAll starts a pass over all events in the rings. All programs that ran at the time waited
// have ended; 0: nobody has waited for them.
func (s *Stream) BeginAll(waited uint64) error {
	if s.Order == nil {
		return s.Begin()
	}
	if err := s.acquire(); err != nil {
		return err
	}
	s.Order.BeginAll(waited)
	return nil
}

// Complete returns the time up to which an ordered stream has delivered everything, or 0.
func (s *Stream) Complete() uint64 {
	if s.Order == nil {
		return 0
	}
	return s.Order.Complete()
}

// wakeUp ends a wait that does not use the waker.
func (s *Stream) wakeUp() {
	if s.Order != nil {
		s.Order.WakeUp()
		return
	}
	select {
	case s.stirred <- struct{}{}:
	default:
	}
}

// allFlushes returns the requests for markers.
func (s *Stream) allFlushes() *stream.Flushes {
	if s.Order != nil {
		return &s.Order.Flushes
	}
	return &s.flushes
}

// Flushing reports whether a marker is still to be delivered.
func (s *Stream) Flushing() bool { return s.allFlushes().Load() != nil }
