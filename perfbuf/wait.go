package perfbuf

import (
	"context"
	"errors"
	"os"
	"time"
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
	if by == nil && r.heldByStream() {
		return errOrdering
	}
	if !r.waiting.CompareAndSwap(false, true) {
		return errWaiting
	}
	defer r.waiting.Store(false)

	if _, ok := ctx.(watched); !ok && ctx.Done() != nil {
		stop := context.AfterFunc(ctx, r.kernel.Interrupt)
		defer stop()
	}
	return r.block(wanted{ctx: ctx, by: by}, atMost)
}

// watched is a context whose end interrupts the poller already. Doing that in each Wait of a Run cost a
// sixth of the time until the first event after a while is delivered.
type watched struct{ context.Context }

// block waits for what is wanted. Only who has set waiting may call it.
func (r *Reader) block(w wanted, atMost time.Duration) error {
	r.wanted = w
	defer func() { r.wanted = wanted{} }()
	var limit time.Time
	if atMost > 0 {
		limit = time.Now().Add(atMost)
	}
	for {
		err := r.kernel.Wait(r.deadline(limit), r.isReady)
		if over := r.over(); over != nil {
			return over
		}
		if r.bell != nil && r.bell.Changed() {
			continue // with another deadline
		}
		if err == os.ErrDeadlineExceeded && r.flushing() {
			err = nil // a deadline that is over when the poller gets it goes before ready
		}
		switch {
		case err == nil:
			if r.bell != nil {
				r.bell.Returned()
			}
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case atMost > 0 && !time.Now().Before(limit):
			return nil
		case r.bell == nil:
			if r.unread() > 0 {
				r.counts.timerWakes.Add(1)
				return nil
			}
		case r.bell.Due():
			r.counts.polls.Add(1)
			if r.bell.Look(r.headOf, r.unreadOf) {
				r.counts.timerWakes.Add(1)
				return nil
			}
		}
		// Nothing came for the poll interval, or the context of an earlier call was done only now. Wait on.
	}
}

// deadline is when to look whether there is something to read, limit at the latest, if that is not zero.
func (r *Reader) deadline(limit time.Time) time.Time {
	var look time.Time
	switch interval := r.opts.Wakeup.PollInterval; {
	case r.bell != nil:
		look = r.bell.Deadline()
	case interval > 0:
		// Those who come and go in a lobby do not put the look off.
		if now := time.Now(); r.wanted.lobby == nil || !r.nextPoll.After(now) {
			r.nextPoll = now.Add(interval)
		}
		look = r.nextPoll
	}
	if look.IsZero() || !limit.IsZero() && limit.Before(look) {
		return limit
	}
	return look
}

// wanted is what the waiting goroutine waits for.
type wanted struct {
	ctx   context.Context
	by    *Ordered // if not nil: who reads ahead of the tails, and may go away before the reader does
	lobby *lobby   // if not nil: those who wait for one ring each
}

// over says why to wait no more, nil if there is no reason.
func (r *Reader) over() error {
	w := &r.wanted
	switch {
	case w.by != nil && w.by.closing.Load():
		return os.ErrClosed
	case w.lobby != nil && w.lobby.changed.Load():
		return errChanged
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case r.closed.Load():
		return os.ErrClosed
	}
	return nil
}

// ready is the poller's question, whether to stop waiting. The deadline it waits with may have
// replaced one that a context, Flush or Close has just set to interrupt it, so these are asked first.
func (r *Reader) ready(woken bool) bool {
	if r.over() != nil || r.flushing() || r.bell != nil && r.bell.Changed() {
		return true
	}
	unread := r.unread()
	if woken {
		r.counts.wakes.Add(1)
		if unread == 0 {
			r.counts.spurious.Add(1)
		}
		if r.bell == nil {
			return unread > 0
		} // else the wake-up may be the old one of a ring that has been disarmed since
	}
	return unread >= r.opts.threshold() || r.rang()
}

// flushing reports whether a Flush ends the wait. Those in a lobby hear of it otherwise: no pass of theirs answers it.
func (r *Reader) flushing() bool { return r.wanted.lobby == nil && r.flush.Load() != nil }

// rang reports whether an armed ring has something to read.
func (r *Reader) rang() bool {
	if r.bell == nil {
		return false
	}
	for i := range r.all() {
		if r.entries.Armed(i) && r.unreadOf(i) > 0 {
			return true
		}
	}
	return false
}

// unread returns how many bytes the ring with the most of them holds that its reader has not seen.
func (r *Reader) unread() (most uint64) {
	for i := range r.all() {
		most = max(most, r.unreadOf(i))
	}
	return most
}

func (r *Reader) headOf(i int) uint64 { return r.rings[i].raw.Head() }

// unreadOf is how many bytes a ring holds that whoever waits for them has not seen.
func (r *Reader) unreadOf(i int) uint64 {
	ring := r.rings[i]
	switch w := &r.wanted; {
	case w.by != nil:
		if i >= len(w.by.rings) {
			return ring.used() // it is new, and the stream's next scan takes it in
		}
		return w.by.merger.Ahead(i, ring.raw.Head())
	case w.lobby != nil && !ring.waited.Load():
		return 0
	default:
		return ring.used()
	}
}
