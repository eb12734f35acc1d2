package perfbuf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// poller blocks until the kernel wakes us. There is one waiting goroutine at most.
type poller interface {
	// wait asks the reader's ready before it blocks, with woken false, and after each wake-up, with
	// woken true, until that reports true. It returns os.ErrDeadlineExceeded after the deadline
	// (zero: never) or interrupt, os.ErrClosed after close.
	wait(deadline time.Time) error
	interrupt() // ends the present wait, if there is one
	close()
}

// Wait blocks until there is something to read, ctx is done or the reader is closed. Nil is a hint:
// the rings hold events, or did a moment ago; a pass says which.
//
// It returns nil at once if the rings hold as much as the wake-up policy wants (see [Wakeup]: by
// default any event), and otherwise when the kernel wakes it or events have waited for the linger
// time. Errors are context.Cause(ctx), which goes before everything else, os.ErrClosed, and
// [ErrBusy] if another goroutine waits already or an [Ordered] stream holds the rings. No thread is
// blocked meanwhile: the goroutine is parked on libbpf's epoll descriptor (perf_buffer__epoll_fd)
// in the Go runtime's poller.
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
	if by == nil && r.heldByStream() {
		return errOrdering
	}
	if !r.waiting.CompareAndSwap(false, true) {
		return fmt.Errorf("%w: another goroutine waits for this Reader", ErrBusy)
	}
	defer r.waiting.Store(false)

	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, r.poll.interrupt)
		defer stop()
	}
	r.wanted = wanted{ctx: ctx, by: by}
	defer func() { r.wanted = wanted{} }()
	for {
		var deadline time.Time
		if limit := cmp.Or(atMost, r.opts.Wakeup.Linger); limit > 0 {
			deadline = time.Now().Add(limit)
		}
		err := r.poll.wait(deadline)
		if over := r.wanted.over(); over != nil {
			return over
		}
		switch {
		case err == nil:
			return nil
		case r.closed.Load():
			return os.ErrClosed
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case atMost > 0 && !time.Now().Before(deadline):
			return nil
		case r.unread() > 0:
			r.counts.lingers.Add(1)
			return nil
		}
		// Nothing came for the linger time, or the context of an earlier call was done only now. Wait on.
	}
}

// wanted is what the waiting goroutine waits for.
type wanted struct {
	ctx context.Context
	by  *Ordered // if not nil: who reads ahead of the tails, and may go away before the reader does
}

// over says why to wait no more, nil if there is no reason.
func (w *wanted) over() error {
	switch {
	case w.by != nil && w.by.closing.Load():
		return os.ErrClosed
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	}
	return nil
}

// ready is the poller's question, whether to stop waiting. The deadline it waits with may have
// replaced one that a context or Close has just set to interrupt it, so these are asked first.
func (r *Reader) ready(woken bool) bool {
	if r.wanted.over() != nil {
		return true
	}
	unread := r.unread()
	if !woken {
		return unread >= r.opts.threshold()
	}
	r.counts.wakes.Add(1)
	if unread == 0 {
		r.counts.spurious.Add(1)
	}
	return unread > 0
}

// unread returns how many bytes the ring with the most of them holds that its reader has not seen.
func (r *Reader) unread() (most uint64) {
	for i, ring := range r.rings {
		if by := r.wanted.by; by != nil {
			if n := ring.raw.Head() - by.merger.Scanned(i); int64(n) > 0 { // not a head that went back
				most = max(most, n)
			}
		} else {
			most = max(most, ring.used())
		}
	}
	return most
}
