package perfbuf

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/wake"
	"github.com/ringfold/ringfold/internal/walk"
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
	var rings wake.Rings = &r.walk
	if by != nil {
		rings = (*streamRings)(by)
	} else if r.walk.Held() {
		return walk.ErrHeld
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
	if rd.walk.Held() {
		return walk.ErrHeld
	}
	err := rd.waker.WaitRing(ctx, r.index, rd.gate.Done())
	if err == wake.ErrRingBusy {
		return fmt.Errorf("%w: another goroutine waits for the ring of CPU %d", ErrBusy, r.CPU())
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

// streamRings is the rings of an ordered stream, which reads ahead of the tails, and may be closed before its
// reader is.
type streamRings Ordered

var _ wake.Rings = (*streamRings)(nil)

func (s *streamRings) Len() int             { return s.reader.walk.Len() }
func (s *streamRings) Head(ring int) uint64 { return s.reader.walk.Head(ring) }
func (s *streamRings) Flushing() bool       { return s.reader.walk.Flushing() }
func (s *streamRings) Closed() bool         { return s.closing.Load() || s.reader.walk.Closed() }

func (s *streamRings) Unread(ring int) uint64 {
	if ring >= s.order.Len() {
		return s.reader.walk.Unread(ring) // it is new, and the stream's next scan takes it in
	}
	return s.order.Ahead(ring, s.reader.walk.Head(ring))
}
