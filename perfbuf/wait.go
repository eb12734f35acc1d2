package perfbuf

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/wake"
)

// Wait blocks until there is something to read, ctx is done or the reader is closed. Nil is a hint:
// the rings hold events, or did a moment ago; a pass says which.
//
// It returns nil when the wake-up policy wants it (see [Wakeup]): by default, when an event comes after
// a while without any, and while events flow, every poll interval, or sooner when a ring fills up; and at
// once after a [Reader.Flush]. Errors are context.Cause(ctx), which goes before everything else,
// os.ErrClosed, and [ErrBusy] if another goroutine waits already, for the Reader or for one of its
// rings, or an [Ordered] stream holds the rings. No thread is blocked meanwhile: the goroutine is
// parked on libbpf's epoll descriptor (perf_buffer__epoll_fd) in the Go runtime's poller.
func (r *Reader) Wait(ctx context.Context) error { return r.wait(ctx, nil, 0) }

// wait is Wait on behalf of an ordered stream, or of nobody in particular. It returns nil after
// atMost, if that is not 0, whether there is something to read or not.
func (r *Reader) wait(ctx context.Context, by *Ordered, atMost time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	var rings wake.Rings = (*readerRings)(r)
	if by != nil {
		rings = (*streamRings)(by)
	} else if r.heldByStream() {
		return errOrdering
	}
	return waitError(r.waker.Wait(ctx, rings, atMost))
}

// Wait is [Reader.Wait] for one ring, for those who read each ring with a goroutine of its own. Any
// number of rings may be waited for at the same time, each by one goroutine, but not the Reader too:
// that is refused with [ErrBusy]. A [Reader.Flush] ends it once, if the ring holds something then.
func (r *Ring) Wait(ctx context.Context) error {
	rd := r.reader
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := rd.enter(); err != nil {
		return err
	}
	defer rd.leave()
	if rd.heldByStream() {
		return errOrdering
	}
	err := rd.waker.WaitRing(ctx, r.index, rd.done)
	if err == wake.ErrRingBusy {
		return fmt.Errorf("%w: another goroutine waits for the ring of CPU %d", ErrBusy, r.cpu)
	}
	return waitError(err)
}

func waitError(err error) error {
	if err == wake.ErrBusy {
		return errWaiting
	}
	return err
}

// Run is [Reader.Run] for one ring, for a goroutine of its own: see [Ring.Wait].
func (r *Ring) Run(ctx context.Context, f func(Event) error) error { return run(ctx, r, f) }

// readerRings is a Reader as its Waker sees it.
type readerRings Reader

var _ wake.Owner = (*readerRings)(nil)

func (r *readerRings) Len() int               { return int(r.count.Load()) }
func (r *readerRings) Head(ring int) uint64   { return r.rings[ring].raw.Head() }
func (r *readerRings) Unread(ring int) uint64 { return r.rings[ring].used() }
func (r *readerRings) Flushing() bool         { return r.flush.Load() != nil }
func (r *readerRings) Closed() bool           { return r.closed.Load() }
func (r *readerRings) Retain()                { r.refs.Add(1) }
func (r *readerRings) Release()               { (*Reader)(r).leave() }

// streamRings is the rings of an ordered stream, which reads ahead of the tails, and may be closed before its
// reader is.
type streamRings Ordered

var _ wake.Rings = (*streamRings)(nil)

func (s *streamRings) Len() int             { return int(s.reader.count.Load()) }
func (s *streamRings) Head(ring int) uint64 { return s.reader.rings[ring].raw.Head() }
func (s *streamRings) Flushing() bool       { return s.reader.flush.Load() != nil }
func (s *streamRings) Closed() bool         { return s.closing.Load() || s.reader.closed.Load() }

func (s *streamRings) Unread(ring int) uint64 {
	r := s.reader.rings[ring]
	if ring >= s.order.Len() {
		return r.used() // it is new, and the stream's next scan takes it in
	}
	return s.order.Ahead(ring, r.raw.Head())
}
