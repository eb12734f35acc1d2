package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/stream"
)

// Rings are the rings that a goroutine waits for, in its own view: a stream that reads ahead of the
// tails has seen more. Methods may be called from anywhere, and do not block.
type Rings interface {
	Len() int               // how many there are; only grows
	Head(ring int) uint64   // the kernel's position
	Unread(ring int) uint64 // bytes not yet seen
	Flushing() bool         // a flush asks for the contents now
	Closed() bool           // reading has ended
}

// Owner is the reader whose rings are waited for, and its view of them.
type Owner interface {
	Rings
	Asked(ring int) bool // a pass over that ring alone must end with a marker or an error
	Retain()             // keeps the rings mapped; the caller has already done so
	Release()            // undoes Retain
}

// Policy says when a wait for a reader's rings ends, and counts the reasons. The reader's owner
// makes it once.
type Policy struct {
	Bell     *Doorbell     // nil: none
	Interval time.Duration // without a doorbell: time between polls; 0: never
	Enough   uint64        // a ring with so many unread bytes ends the wait

	nextPoll time.Time // without a doorbell: when to look; only the waiting goroutine uses it

	wakes, spurious, timer, polls atomic.Uint64
}

// WaitCounts counts wakeups, looks, and the waits they ended.
type WaitCounts struct {
	Wakes    uint64 // by the kernel
	Spurious uint64 // wakeups with nothing to read
	Timer    uint64 // waits that ended because events had waited for the poll interval
	Polls    uint64 // looks at rings while some were not armed, or had just been
}

// Counts may be called from anywhere.
func (p *Policy) Counts() WaitCounts {
	return WaitCounts{Wakes: p.wakes.Load(), Spurious: p.spurious.Load(), Timer: p.timer.Load(), Polls: p.polls.Load()}
}

// Part is a reader's rings, as the waiting goroutine sees them.
type Part struct {
	Rings
	Policy *Policy
}

// ErrBusy is returned if another goroutine waits.
var ErrBusy = fmt.Errorf("%w: another goroutine waits for this Reader, or for one of its rings", stream.ErrBusy)

// A Waker lets goroutines wait: one at a time for all rings, or any number for one ring each.
type Waker struct {
	poller kernel.Poller
	owner  Owner // of the rings that WaitRing waits for
	own    []Part

	waiting atomic.Bool // a goroutine is in block, and owns the fields below
	ctx     context.Context
	parts   []Part
	shared  bool                  // it is serve, for all single-ring waiters
	isReady func(woken bool) bool // the method value ready, kept to save an allocation per wait

	each each
}

// newWaker makes a Waker for the owner's rings, at most room of them.
func newWaker(poller kernel.Poller, owner Owner, room int, p *Policy) *Waker {
	w := newGroupWaker(poller)
	w.owner, w.own, w.each.waiters = owner, []Part{{owner, p}}, make([]waiter, room)
	return w
}

// newGroupWaker makes a Waker for rings of several readers, without WaitRing. Each reader's wakeups
// reach the poller.
func newGroupWaker(poller kernel.Poller) *Waker {
	w := &Waker{poller: poller}
	w.isReady, w.each.left.L = w.ready, &w.each.mu
	return w
}

// Disarmed makes a waiting reader poll: another goroutine's pass has disarmed a ring, which no
// longer wakes the reader. It may be called from anywhere.
func (w *Waker) Disarmed(p *Policy) {
	if p.Bell != nil && w.waiting.Load() {
		p.Bell.changed.Store(true)
		w.poller.Interrupt()
	}
}

// Interrupt wakes a waiting reader so that it checks its context and its Rings.
func (w *Waker) Interrupt() { w.poller.Interrupt() }

// Watched is a context whose end already interrupts the wait. Arranging that anew in each Wait of a
// loop took a sixth of the time to deliver the first event after a pause.
type Watched struct{ context.Context }

// Wait blocks until rings have enough to read by their policies, or a flush is asked for. If atMost
// is not 0, it also returns nil after that time. Its errors are context.Cause(ctx), os.ErrClosed,
// those of the kernel's Wait, and ErrBusy if another goroutine waits, for one ring or for all.
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

// block waits for rings. Only the goroutine that has set waiting may call it.
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
			err = nil // the kernel checks a deadline that has already passed before it calls ready
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
		// Nothing came for the poll interval, or the context of an earlier call ended only now.
		// Keep waiting.
	}
}

// deadline returns when to look for something to read, at the latest limit if that is not zero.
func (w *Waker) deadline(limit time.Time) time.Time {
	for i := range w.parts {
		poll := w.parts[i].Policy.deadline(w.shared)
		if !poll.IsZero() && (limit.IsZero() || poll.Before(limit)) {
			limit = poll
		}
	}
	return limit
}

// deadline returns when to look at rings, zero for never.
func (p *Policy) deadline(shared bool) time.Time {
	switch {
	case p.Bell != nil:
		return p.Bell.deadline()
	case p.Interval > 0:
		// Single-ring waiters come and go. They must not put the look off.
		if now := time.Now(); !shared || !p.nextPoll.After(now) {
			p.nextPoll = now.Add(p.Interval)
		}
		return p.nextPoll
	}
	return time.Time{}
}

// poll looks at the rings whose time has come. It reports whether there is something to read.
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

// returned notes in all doorbells that the reader has something to do.
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

// ended returns why the wait must end, nil if there is no reason.
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

// ready answers the kernel whether to stop waiting. A context, a flush or a close may have
// interrupted before the wait began, in vain, so ready checks these too. It checks the rings first:
// after a pause, touching memory or code takes time. block itself checks whether the wait has
// ended.
func (w *Waker) ready(woken bool) bool {
	if p := w.parts[0].Policy; woken && len(w.parts) == 1 && p.Bell != nil && p.Bell.pause && !w.shared {
		p.wakes.Add(1)
		return true // first output after a pause: a pass looks at the rings anyway
	}
	enough, by := w.look(woken)
	if woken {
		if by == nil { // the wakeup may have been for any part
			by = w.parts[0].Policy
			by.spurious.Add(1)
		}
		by.wakes.Add(1)
	}
	return enough || w.ended() != nil || w.flushing() || w.changed()
}

// look reports whether a ring holds enough to end the wait, and which part it belongs to. If none
// does, by is the first part that holds anything, or nil: the best guess at the wakeup's origin.
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

// rouses reports whether any unread byte in a ring ends the wait. With a doorbell, the ring must be
// armed: the wakeup may be an old one of a ring that has been disarmed since.
func (p *Policy) rouses(ring int, woken bool) bool {
	if p.Bell == nil {
		return woken
	}
	return p.Bell.entries.Armed(ring)
}

// flushing reports whether a flush ends the wait. Single-ring waits end by Flush instead: their
// passes do not answer a flush of all rings.
func (w *Waker) flushing() bool {
	return !w.shared && slices.ContainsFunc(w.parts, func(p Part) bool { return p.Flushing() })
}

// mostUnread returns the largest number of unread bytes in any ring.
func (w *Waker) mostUnread(p *Part) (most uint64) {
	for i := range p.Len() {
		most = max(most, w.unread(p, i))
	}
	return most
}

// unread returns how many unread bytes a ring holds. In a shared wait it returns 0 if no goroutine
// waits for the ring.
func (w *Waker) unread(p *Part, ring int) uint64 {
	if w.shared && !w.each.waiters[ring].waits.Load() {
		return 0
	}
	return p.Unread(ring)
}
