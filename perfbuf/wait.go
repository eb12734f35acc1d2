package perfbuf

import (
	"context"

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
func (r *Reader) Wait(ctx context.Context) error {
	return r.wait(ctx, func() error { return r.waker.Wait(ctx, r.waker.Own(), 0) })
}

func (r *Reader) wait(ctx context.Context, wait func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	if r.walk.Held() {
		return walk.ErrHeld
	}
	return wait()
}

// Wait is [Reader.Wait] for one ring, for those who read each ring with a goroutine of its own. Any
// number of rings may be waited for at the same time, each by one goroutine, but not the Reader too:
// that is refused with [ErrBusy]. A [Reader.Flush] ends it once, if the ring holds something then.
func (r *Ring) Wait(ctx context.Context) error {
	rd := r.reader
	return rd.wait(ctx, func() error { return rd.waker.WaitRing(ctx, r.index, rd.gate.Done()) })
}

// Run is [Reader.Run] for one ring, for a goroutine of its own: see [Ring.Wait].
func (r *Ring) Run(ctx context.Context, f func(Event) error) error { return run(ctx, r, f) }
