package engine

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
)

// policy says when a wait for a reader's rings ends, and counts the reasons.
type policy struct {
	bell     *doorbell     // nil: none
	interval time.Duration // without a doorbell: time between polls; 0: never
	enough   uint64        // a ring with so many unread bytes ends the wait

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

// Waits returns the counts of waits for the reader's rings.
func (r *Reader) Waits() WaitCounts {
	p := &r.policy
	return WaitCounts{Wakes: p.wakes.Load(), Spurious: p.spurious.Load(), Timer: p.timer.Load(), Polls: p.polls.Load()}
}

// A waker lets goroutines wait: one for all rings, or any number for one ring each. Streams claim
// what they read, so there are never two waiters for a ring.
type waker struct {
	poller kernel.Poller
	bed    kernel.Sleeper // the poller, if it can sleep and doze; else nil
	reader *Reader        // of the rings that waitRing waits for; nil: a group's
	own    []*source      // that reader

	waiting atomic.Bool // a goroutine is in block or sleep, and owns the fields below
	ctx     context.Context
	parts   []*source
	shared  bool                  // it is serve, for all single-ring waiters
	stirs   func() bool           // ends the present sleep
	roused  bool                  // a wakeup has ended the latest doze
	isReady func(woken bool) bool // method values, kept to save an allocation per wait
	isAwake func() bool

	each each
}

// newWaker makes a waker for a reader's rings, at most room of them.
func newWaker(r *Reader, room int) *waker {
	w := newGroupWaker(r.kernel)
	w.reader, w.own, w.each.waiters = r, []*source{{reader: r}}, make([]waiter, room)
	return w
}

// newGroupWaker makes a waker for rings of several readers, without waitRing. Each reader's wakeups
// reach the poller.
func newGroupWaker(poller kernel.Poller) *waker {
	w := &waker{poller: poller}
	w.bed, _ = poller.(kernel.Sleeper)
	w.isReady, w.isAwake, w.each.left.L = w.ready, w.awake, &w.each.mu
	return w
}

// disarmed makes a waiting reader poll: another goroutine's pass has disarmed a ring, which no
// longer wakes the reader. It may be called from anywhere.
func (w *waker) disarmed(p *policy) {
	if p.bell != nil && w.waiting.Load() {
		p.bell.changed.Store(true)
		w.poller.Interrupt()
	}
}

// Watched is a context whose end already interrupts the wait. Arranging that anew in each Wait of a
// loop took a sixth of the time to deliver the first event after a pause.
type Watched struct{ context.Context }

// wait blocks until rings have enough to read by their policies, or a flush is asked for. If atMost
// is not 0, it also returns nil after that time. Its errors are context.Cause(ctx), os.ErrClosed,
// and those of the kernel's Wait.
func (w *waker) wait(ctx context.Context, parts []*source, atMost time.Duration) error {
	w.begin()
	stop := w.watch(ctx)
	w.ctx, w.parts = ctx, parts
	err := w.block(atMost, true)
	if err == errDrowsy {
		if w.roused, _ = w.bed.Doze(w.isReady); w.roused && w.reader != nil {
			w.reader.policy.wakes.Add(1)
			err = nil // a pass finds out whatever there is
		} else {
			if w.roused {
				w.ready(true) // counts the wakeup
			}
			err = w.block(atMost, false) // which finds what ended the doze
		}
	}
	w.ctx, w.parts = nil, nil
	if stop != nil {
		stop()
	}
	w.waiting.Store(false)
	return err
}

// watch makes the end of ctx interrupt the wait, until stop is called. It is nil if there is
// nothing to stop.
func (w *waker) watch(ctx context.Context) (stop func() bool) {
	if _, ok := ctx.(Watched); ok || ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, w.poller.Interrupt)
}

// sleep blocks for this time, ignoring the rings, or until stirs reports true after an Interrupt.
// Its errors are those of wait.
func (w *waker) sleep(ctx context.Context, d time.Duration, stirs func() bool) error {
	w.begin()
	defer w.waiting.Store(false)
	if stop := w.watch(ctx); stop != nil {
		defer stop()
	}
	w.ctx, w.stirs = ctx, stirs
	defer func() { w.ctx, w.stirs = nil, nil }()
	err := w.bed.Sleep(time.Now().Add(d), w.isAwake)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == os.ErrDeadlineExceeded:
		return nil
	}
	return err
}

func (w *waker) awake() bool { return w.ctx.Err() != nil || w.stirs() }

// untilDrowsy is how long a wait leaves its thread to other goroutines before it dozes. One to
// which the latest events were sent would else wait for another thread.
const untilDrowsy = 50 * time.Millisecond

// errDrowsy ends a wait that may doze from now on.
var errDrowsy = errors.New("engine: drowsy")

// block waits for rings, or returns errDrowsy if it may. Only the goroutine that has set waiting
// may call it.
func (w *waker) block(atMost time.Duration, mayDoze bool) error {
	var limit time.Time
	if atMost > 0 {
		limit = time.Now().Add(atMost)
	}
	for {
		w.roused = false
		deadline := w.deadline(limit)
		drowsy := mayDoze && deadline.IsZero() && w.bed != nil
		if drowsy {
			deadline = time.Now().Add(untilDrowsy)
		}
		err := w.poller.Wait(deadline, w.isReady)
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
		case drowsy:
			return errDrowsy
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
func (w *waker) deadline(limit time.Time) time.Time {
	for i := range w.parts {
		poll := w.parts[i].reader.policy.deadline(w.shared)
		if !poll.IsZero() && (limit.IsZero() || poll.Before(limit)) {
			limit = poll
		}
	}
	return limit
}

// deadline returns when to look at rings, zero for never.
func (p *policy) deadline(shared bool) time.Time {
	switch {
	case p.bell != nil:
		return p.bell.deadline()
	case p.interval > 0:
		// Single-ring waiters come and go. They must not put the look off.
		if now := time.Now(); !shared || !p.nextPoll.After(now) {
			p.nextPoll = now.Add(p.interval)
		}
		return p.nextPoll
	}
	return time.Time{}
}

// poll looks at the rings whose time has come. It reports whether there is something to read.
func (w *waker) poll() (found bool) {
	for i := range w.parts {
		src := w.parts[i]
		switch p := &src.reader.policy; {
		case p.bell == nil:
			if w.mostUnread(src) > 0 {
				p.timer.Add(1)
				found = true
			}
		case p.bell.due():
			p.polls.Add(1)
			if p.bell.look(func(ring int) uint64 { return w.unread(src, ring) }) {
				p.timer.Add(1)
				found = true
			}
		}
	}
	return found
}

// returned notes in all doorbells that the reader has something to do.
func (w *waker) returned() {
	for i := range w.parts {
		if bell := w.parts[i].reader.policy.bell; bell != nil {
			bell.returned()
		}
	}
}

// changed reports whether a ring has been disarmed since the deadline was chosen.
func (w *waker) changed() bool {
	for i := range w.parts {
		if bell := w.parts[i].reader.policy.bell; bell != nil && bell.changed.Load() {
			return true
		}
	}
	return false
}

// ended returns why the wait must end, nil if there is no reason.
func (w *waker) ended() error {
	if w.shared && w.each.changed.Load() {
		return errChanged
	}
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	for i := range w.parts {
		if w.parts[i].ended() {
			return os.ErrClosed
		}
	}
	return nil
}

// ready answers the kernel whether to stop waiting. A context, a flush or a close may have
// interrupted before the wait began, in vain, so ready checks these too. It checks the rings first:
// after a pause, touching memory or code takes time. block itself checks whether the wait has
// ended.
func (w *waker) ready(woken bool) bool {
	enough, by := w.look(woken)
	if woken {
		if by == nil { // the wakeup may have been for any part
			by = &w.parts[0].reader.policy
			by.spurious.Add(1)
		}
		by.wakes.Add(1)
	}
	return enough || w.ended() != nil || w.flushing() || w.changed()
}

// look reports whether a ring holds enough to end the wait, and which part it belongs to. If none
// does, by is the first part that holds anything, or nil: the best guess at the wakeup's origin.
func (w *waker) look(woken bool) (enough bool, by *policy) {
	for _, src := range w.parts {
		p := &src.reader.policy
		for ring := range src.reader.Rings.Len() {
			n := w.unread(src, ring)
			if n >= p.enough || n > 0 && p.rouses(ring, woken) {
				return true, p
			}
			if n > 0 && by == nil {
				by = p
			}
		}
	}
	return false, by
}

// rouses reports whether any unread byte in a ring ends the wait. With a doorbell, the ring must be
// armed: the wakeup may be an old one of a ring that has been disarmed since.
func (p *policy) rouses(ring int, woken bool) bool {
	if p.bell == nil {
		return woken
	}
	return p.bell.entries.Armed(ring)
}

// flushing reports whether a flush ends the wait. Single-ring waits end by flush instead: their
// passes do not answer a flush of all rings.
func (w *waker) flushing() bool {
	return !w.shared && slices.ContainsFunc(w.parts, (*source).flushing)
}

// mostUnread returns the largest number of unread bytes in any ring.
func (w *waker) mostUnread(src *source) (most uint64) {
	for i := range src.reader.Rings.Len() {
		most = max(most, w.unread(src, i))
	}
	return most
}

// unread returns how many unread bytes a ring holds. In a shared wait it returns 0 if no goroutine
// waits for the ring.
func (w *waker) unread(src *source, ring int) uint64 {
	if w.shared && !w.each.waiters[ring].waits.Load() {
		return 0
	}
	return src.unread(ring)
}
