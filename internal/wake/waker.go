// Package wake decides when a waiting goroutine gets up.
package wake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/walk"
)

// Rings are what a goroutine waits for, as it sees them: one that reads ahead of the tails has seen more. Methods
// may be called from anywhere, and do not block.
type Rings interface {
	Len() int               // how many there are; only grows
	Head(ring int) uint64   // how far the kernel has got
	Unread(ring int) uint64 // bytes that are there and have not been seen
	Flushing() bool         // a flush asks for them now
	Closed() bool           // nobody reads them now
}

// Owner is the reader whose rings are waited for, and its view of them.
type Owner interface {
	Rings
	Asked(ring int) bool // a pass over that ring alone is to end with a marker or an error
	Retain()             // keeps the rings mapped, on behalf of somebody who has done so
	Release()            // undoes that
}

// Policy is when a wait for a reader's rings ends, and what has ended waits for them. Its owner makes it once.
type Policy struct {
	Bell     *Doorbell     // nil: none
	Interval time.Duration // without a doorbell: between two looks at what has woken nobody; 0: never
	Enough   uint64        // so many bytes in one ring are not waited for

	nextPoll time.Time // when to look, without a doorbell; of whoever waits

	wakes, spurious, timer, polls atomic.Uint64
}

// Counts is what has ended waits, and not ended them.
type Counts struct {
	Wakes    uint64 // by the kernel
	Spurious uint64 // of these, with nothing to read
	Timer    uint64 // waits that ended because events had waited for the poll interval
	Polls    uint64 // looks at rings while the doorbell was not armed for all, or had just been
}

// Counts may be called from anywhere.
func (p *Policy) Counts() Counts {
	return Counts{Wakes: p.wakes.Load(), Spurious: p.spurious.Load(), Timer: p.timer.Load(), Polls: p.polls.Load()}
}

// Part is a reader's rings, as who waits for them sees them.
type Part struct {
	Rings
	Policy *Policy
}

// ErrBusy is returned if another goroutine waits.
var ErrBusy = fmt.Errorf("%w: another goroutine waits for this Reader, or for one of its rings", walk.ErrBusy)

// A Waker lets goroutines wait: one at a time for all rings, or any number for one ring each.
type Waker struct {
	poller kernel.Poller
	owner  Owner // of the rings that are waited for one by one
	own    []Part

	waiting atomic.Bool // a goroutine is in block; what follows is its own
	ctx     context.Context
	parts   []Part
	shared  bool                  // it waits on behalf of those who wait for one ring each
	isReady func(woken bool) bool // ready, made once: it would allocate in every wait

	each each
}

// New makes a Waker for the owner's rings, of which there will be room at most.
func New(poller kernel.Poller, owner Owner, room int, p *Policy) *Waker {
	w := NewGroup(poller)
	w.owner, w.own, w.each.waiters = owner, []Part{{owner, p}}, make([]waiter, room)
	return w
}

// NewGroup makes a Waker for rings of several readers, which are not waited for one by one. Whatever wakes one of the
// readers wakes the poller.
func NewGroup(poller kernel.Poller) *Waker {
	w := &Waker{poller: poller}
	w.isReady, w.each.left.L = w.ready, &w.each.mu
	return w
}

// Own is the owner's rings, as it sees them.
func (w *Waker) Own() []Part { return w.own }

// Disarmed makes a waiting reader look at the rings by the timer: a pass of another goroutine has
// disarmed one, which no longer wakes it. It may be called from anywhere.
func (w *Waker) Disarmed(p *Policy) {
	if p.Bell != nil && w.waiting.Load() {
		p.Bell.changed.Store(true)
		w.poller.Interrupt()
	}
}

// Interrupt has a waiting reader look at its context, and at what Rings say.
func (w *Waker) Interrupt() { w.poller.Interrupt() }

// Watched is a context whose end interrupts the wait already. Doing that in each Wait of a loop cost a
// sixth of the time until the first event after a while is delivered.
type Watched struct{ context.Context }

// Wait blocks until rings have something to read, as their policies want it, or a flush is asked for. It
// returns nil after atMost too, if that is not 0. Errors are context.Cause(ctx), os.ErrClosed, ErrBusy if another
// goroutine waits, for one ring or for all, and those of the kernel's Wait.
func (w *Waker) Wait(ctx context.Context, parts []Part, atMost time.Duration) error {
	if err := w.begin(); err != nil {
		return err
	}
	defer w.waiting.Store(false)
	if _, ok := ctx.(Watched); !ok && ctx.Done() != nil {
		stop := context.AfterFunc(ctx, w.poller.Interrupt)
		defer stop()
	}
	w.ctx, w.parts = ctx, parts
	defer func() { w.ctx, w.parts = nil, nil }()
	return w.block(atMost)
}

// block waits for rings. Only who has set waiting may call it.
func (w *Waker) block(atMost time.Duration) error {
	var limit time.Time
	if atMost > 0 {
		limit = time.Now().Add(atMost)
	}
	for {
		err := w.poller.Wait(w.deadline(limit), w.isReady)
		if ended := w.ended(); ended != nil {
			return ended
		}
		if w.changed() {
			continue // with another deadline
		}
		if err == os.ErrDeadlineExceeded && w.flushing() {
			err = nil // a deadline that has passed when the kernel gets it goes before ready
		}
		switch {
		case err == nil:
			w.returned()
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case atMost > 0 && !time.Now().Before(limit):
			return nil
		case w.poll():
			return nil
		}
		// Nothing came for the poll interval, or the context of an earlier call was done only now. Wait on.
	}
}

// deadline is when to look whether there is something to read, limit at the latest, if that is not zero.
func (w *Waker) deadline(limit time.Time) time.Time {
	for i := range w.parts {
		poll := w.parts[i].Policy.deadline(w.shared)
		if !poll.IsZero() && (limit.IsZero() || poll.Before(limit)) {
			limit = poll
		}
	}
	return limit
}

// deadline is when to look at rings, zero for never.
func (p *Policy) deadline(shared bool) time.Time {
	switch {
	case p.Bell != nil:
		return p.Bell.deadline()
	case p.Interval > 0:
		// Those who wait for one ring each come and go, and do not put it off.
		if now := time.Now(); !shared || !p.nextPoll.After(now) {
			p.nextPoll = now.Add(p.Interval)
		}
		return p.nextPoll
	}
	return time.Time{}
}

// poll looks at rings of which it is time to. It reports whether there is something to read.
func (w *Waker) poll() (found bool) {
	for i := range w.parts {
		switch p := &w.parts[i]; {
		case p.Policy.Bell == nil:
			if w.mostUnread(p) > 0 {
				p.Policy.timer.Add(1)
				found = true
			}
		case p.Policy.Bell.due():
			p.Policy.polls.Add(1)
			if p.Policy.Bell.Look(p.Head, func(ring int) uint64 { return w.unread(p, ring) }) {
				p.Policy.timer.Add(1)
				found = true
			}
		}
	}
	return found
}

// returned tells doorbells that the reader has something to do.
func (w *Waker) returned() {
	for i := range w.parts {
		switch bell := w.parts[i].Policy.Bell; {
		case bell == nil:
		case bell.pause:
			bell.ring()
		default:
			bell.returned()
		}
	}
}

// changed reports whether a ring has been disarmed since the deadline was chosen.
func (w *Waker) changed() bool {
	for i := range w.parts {
		if bell := w.parts[i].Policy.Bell; bell != nil && bell.changed.Load() {
			return true
		}
	}
	return false
}

// ended is why to wait no more, nil if there is no reason.
func (w *Waker) ended() error {
	if w.shared && w.each.changed.Load() {
		return errChanged
	}
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	for i := range w.parts {
		if w.parts[i].Closed() {
			return os.ErrClosed
		}
	}
	return nil
}

// ready is the kernel's question, whether to stop waiting. A context, a flush or a close may have interrupted the wait
// before it began, in vain, so these are looked at too. What there is to read comes first: after a pause, all memory and
// code that is touched costs time. Block asks itself whether the wait has ended.
func (w *Waker) ready(woken bool) bool {
	if p := w.parts[0].Policy; woken && len(w.parts) == 1 && p.Bell != nil && p.Bell.pause && !w.shared {
		p.wakes.Add(1)
		return true // the first output after a pause, and what is touched after a pause takes time: a pass looks at the rings anyway
	}
	enough, by := w.look(woken)
	if woken {
		if by == nil { // it may have been for any of them
			by = w.parts[0].Policy
			by.spurious.Add(1)
		}
		by.wakes.Add(1)
	}
	return enough || w.ended() != nil || w.flushing() || w.changed()
}

// look reports whether a ring holds enough to end the wait, and which part it belongs to. If none
// does, by is the first part that holds anything, or nil. A wakeup was for that part, as far as can
// be seen.
func (w *Waker) look(woken bool) (enough bool, by *Policy) {
	for i := range w.parts {
		p := &w.parts[i]
		for ring := range p.Len() {
			n := w.unread(p, ring)
			if n >= p.Policy.Enough || n > 0 && p.Policy.rouses(ring, woken) {
				return true, p.Policy
			}
			if n > 0 && by == nil {
				by = p.Policy
			}
		}
	}
	return false, by
}

// rouses reports whether anything in a ring ends the wait, however little. With a doorbell, a wakeup may be the old one of a
// ring that has been disarmed since.
func (p *Policy) rouses(ring int, woken bool) bool {
	if p.Bell == nil {
		return woken
	}
	return p.Bell.entries.Armed(ring)
}

// flushing reports whether a flush ends the wait. Those who wait for one ring hear of it by Flush: no pass of theirs
// answers it.
func (w *Waker) flushing() bool {
	return !w.shared && slices.ContainsFunc(w.parts, func(p Part) bool { return p.Flushing() })
}

// mostUnread returns how many bytes the ring with the most of them holds that have not been seen.
func (w *Waker) mostUnread(p *Part) (most uint64) {
	for i := range p.Len() {
		most = max(most, w.unread(p, i))
	}
	return most
}

// unread is how many bytes a ring holds that are waited for.
func (w *Waker) unread(p *Part, ring int) uint64 {
	if w.shared && !w.each.waiters[ring].waits.Load() {
		return 0
	}
	return p.Unread(ring)
}
