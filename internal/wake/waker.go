// Package wake decides when a waiting goroutine gets up.
package wake

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
)

// Rings are what a goroutine waits for, as it sees them: one that reads ahead of the tails has seen more. Methods
// may be called from anywhere, and do not block.
type Rings interface {
	Len() int               // how many there are; only grows
	Head(ring int) uint64   // how far the kernel has got
	Unread(ring int) uint64 // bytes that are there and have not been seen
	Flushing() bool         // a flush asks for them now
	Closed() bool           // nobody reads them any more
}

// Owner is the reader whose rings are waited for, and its view of them.
type Owner interface {
	Rings
	Retain()  // keeps the rings mapped, on behalf of somebody who has done so
	Release() // undoes that
}

// Policy is when a wait ends.
type Policy struct {
	Bell     *Doorbell     // nil: none
	Interval time.Duration // without a doorbell: between two looks at what has woken nobody; 0: never
	Enough   uint64        // so many bytes in one ring are not waited for
}

// ErrBusy is returned if another goroutine waits.
var ErrBusy = errors.New("wake: another goroutine waits")

// A Waker lets goroutines wait: one at a time for all rings, or any number for one ring each.
type Waker struct {
	kernel kernel.Kernel
	owner  Owner
	policy Policy

	waiting  atomic.Bool // a goroutine is in block; what follows is its own
	ctx      context.Context
	rings    Rings
	shared   bool                  // it waits on behalf of those who wait for one ring each
	isReady  func(woken bool) bool // ready, made once: it would allocate in every wait
	nextPoll time.Time             // when it looks, without a doorbell

	each each

	wakes, spurious, timer, polls atomic.Uint64
}

// New makes a Waker for the owner's rings, of which there will be room at most.
func New(k kernel.Kernel, owner Owner, room int, p Policy) *Waker {
	w := &Waker{kernel: k, owner: owner, policy: p, each: each{waiters: make([]waiter, room)}}
	w.isReady = w.ready
	return w
}

// Bell is the doorbell, nil if there is none.
func (w *Waker) Bell() *Doorbell { return w.policy.Bell }

// Counts is what has ended waits, and not ended them.
type Counts struct {
	Wakes    uint64 // by the kernel
	Spurious uint64 // of these, with nothing to read
	Timer    uint64 // waits that ended because events had waited for the poll interval
	Polls    uint64 // looks at rings while the doorbell was not armed for all, or had just been
}

// Counts may be called from anywhere.
func (w *Waker) Counts() Counts {
	return Counts{Wakes: w.wakes.Load(), Spurious: w.spurious.Load(), Timer: w.timer.Load(), Polls: w.polls.Load()}
}

// Disarmed makes whoever waits look at the rings by the timer: a pass of another goroutine has
// disarmed one, of which no output wakes any more. It may be called from anywhere.
func (w *Waker) Disarmed() {
	if w.policy.Bell != nil && w.waiting.Load() {
		w.policy.Bell.changed.Store(true)
		w.kernel.Interrupt()
	}
}

// Watched is a context whose end interrupts the kernel's Wait already. Doing that in each Wait of a loop cost a
// sixth of the time until the first event after a while is delivered.
type Watched struct{ context.Context }

// Wait blocks until rings have something to read, as the policy wants it, or a flush is asked for. It
// returns nil after atMost too, if that is not 0. Errors are context.Cause(ctx), os.ErrClosed, ErrBusy if another
// goroutine waits, for one ring or for all, and those of the kernel's Wait.
func (w *Waker) Wait(ctx context.Context, rings Rings, atMost time.Duration) error {
	if !w.waiting.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer w.waiting.Store(false)
	if _, ok := ctx.(Watched); !ok && ctx.Done() != nil {
		stop := context.AfterFunc(ctx, w.kernel.Interrupt)
		defer stop()
	}
	w.ctx, w.rings = ctx, rings
	defer func() { w.ctx, w.rings = nil, nil }()
	return w.block(atMost)
}

// block waits for rings. Only who has set waiting may call it.
func (w *Waker) block(atMost time.Duration) error {
	bell := w.policy.Bell
	var limit time.Time
	if atMost > 0 {
		limit = time.Now().Add(atMost)
	}
	for {
		err := w.kernel.Wait(w.deadline(limit), w.isReady)
		if ended := w.ended(); ended != nil {
			return ended
		}
		if bell != nil && bell.changed.Load() {
			continue // with another deadline
		}
		if err == os.ErrDeadlineExceeded && w.flushing() {
			err = nil // a deadline that has passed when the kernel gets it goes before ready
		}
		switch {
		case err == nil:
			switch {
			case bell != nil && bell.pause:
				bell.ring()
			case bell != nil:
				bell.returned()
			}
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case atMost > 0 && !time.Now().Before(limit):
			return nil
		case bell == nil:
			if w.mostUnread() > 0 {
				w.timer.Add(1)
				return nil
			}
		case bell.due():
			w.polls.Add(1)
			if bell.Look(w.rings.Head, w.unread) {
				w.timer.Add(1)
				return nil
			}
		}
		// Nothing came for the poll interval, or the context of an earlier call was done only now. Wait on.
	}
}

// deadline is when to look whether there is something to read, limit at the latest, if that is not zero.
func (w *Waker) deadline(limit time.Time) time.Time {
	var poll time.Time
	switch interval := w.policy.Interval; {
	case w.policy.Bell != nil:
		poll = w.policy.Bell.deadline()
	case interval > 0:
		// Those who wait for one ring each come and go, and do not put it off.
		if now := time.Now(); !w.shared || !w.nextPoll.After(now) {
			w.nextPoll = now.Add(interval)
		}
		poll = w.nextPoll
	}
	if poll.IsZero() || !limit.IsZero() && limit.Before(poll) {
		return limit
	}
	return poll
}

// ended is why to wait no more, nil if there is no reason.
func (w *Waker) ended() error {
	switch {
	case w.shared && w.each.changed.Load():
		return errChanged
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case w.rings.Closed():
		return os.ErrClosed
	}
	return nil
}

// ready is the kernel's question, whether to stop waiting. A context, a flush or a close may have interrupted the wait
// before it began, in vain, so these are looked at too. What there is to read comes first: after a pause, all memory and
// code that is touched costs time. Block asks itself whether the wait has ended.
func (w *Waker) ready(woken bool) bool {
	bell := w.policy.Bell
	if woken {
		w.wakes.Add(1)
		if bell != nil && bell.pause && !w.shared {
			return true // the first output after a pause, and what is touched after a pause takes time: a pass looks at the rings anyway
		}
	}
	for i := range w.rings.Len() {
		if n := w.unread(i); n >= w.policy.Enough || n > 0 && w.rouses(i, woken) {
			return true
		}
	}
	if woken && w.mostUnread() == 0 {
		w.spurious.Add(1)
	}
	return w.ended() != nil || w.flushing() || bell != nil && bell.changed.Load()
}

// rouses reports whether anything in a ring ends the wait, however little. With a doorbell, a wake-up may be the old one of a
// ring that has been disarmed since.
func (w *Waker) rouses(ring int, woken bool) bool {
	if w.policy.Bell == nil {
		return woken
	}
	return w.policy.Bell.entries.Armed(ring)
}

// flushing reports whether a flush ends the wait. Those who wait for one ring hear of it by Flush: no pass of theirs
// answers it.
func (w *Waker) flushing() bool { return !w.shared && w.rings.Flushing() }

// mostUnread returns how many bytes the ring with the most of them holds that have not been seen.
func (w *Waker) mostUnread() (most uint64) {
	for i := range w.rings.Len() {
		most = max(most, w.unread(i))
	}
	return most
}

// unread is how many bytes a ring holds that are waited for.
func (w *Waker) unread(ring int) uint64 {
	if w.shared && !w.each.waiters[ring].waits.Load() {
		return 0
	}
	return w.rings.Unread(ring)
}
