package perfbuf

import (
	"os"
	"time"
)

// past is a deadline that is over.
var past = time.Unix(1, 0)

// chanPoller waits for wake-ups that come over a channel: those of a simulated kernel.
type chanPoller struct {
	ready      func(woken bool) bool
	wakes      <-chan struct{} // of capacity 1. Like perf's readiness, one is remembered
	interrupts chan struct{}
	closed     chan struct{}
}

func newChanPoller(wakes <-chan struct{}) *chanPoller {
	return &chanPoller{wakes: wakes, interrupts: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (p *chanPoller) wait(deadline time.Time) error {
	for _, forget := range []<-chan struct{}{p.wakes, p.interrupts} { // an interrupt is a deadline, which this one replaces
		select {
		case <-forget:
		default:
		}
	}
	select {
	case <-p.closed:
		return os.ErrClosed
	default:
	}
	if p.ready(false) {
		return nil
	}
	var late <-chan time.Time // never, if there is no deadline: not even in a bubble whose time runs fast
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-p.wakes:
			if p.ready(true) {
				return nil
			}
		case <-late:
			return os.ErrDeadlineExceeded
		case <-p.interrupts:
			return os.ErrDeadlineExceeded
		case <-p.closed:
			return os.ErrClosed
		}
	}
}

func (p *chanPoller) interrupt() {
	select {
	case p.interrupts <- struct{}{}:
	default:
	}
}

func (p *chanPoller) close() { close(p.closed) }
