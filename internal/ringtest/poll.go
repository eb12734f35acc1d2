package ringtest

import (
	"os"
	"time"
)

// Poll waits for wake-ups that come over a channel, as kernel.Kernel's Wait and Interrupt do.
type Poll struct {
	wakes      chan struct{} // of capacity 1. Like perf's readiness, one is remembered
	interrupts chan struct{}
}

// NewPoll makes a Poll that nobody has woken yet.
func NewPoll() *Poll {
	return &Poll{wakes: make(chan struct{}, 1), interrupts: make(chan struct{}, 1)}
}

// Wake is the kernel's wake-up.
func (p *Poll) Wake() {
	select {
	case p.wakes <- struct{}{}:
	default: // poll is still to be told of the last one
	}
}

// Wakes has a value when there was a wake-up that no Wait has heard of.
func (p *Poll) Wakes() <-chan struct{} { return p.wakes }

// Wait is kernel.Kernel's.
func (p *Poll) Wait(until time.Time, ready func(woken bool) bool) error {
	for _, forget := range []<-chan struct{}{p.wakes, p.interrupts} { // an interrupt is a deadline, which this one replaces
		select {
		case <-forget:
		default:
		}
	}
	if ready(false) {
		return nil
	}
	var late <-chan time.Time // never, if there is no deadline: not even in a bubble whose time runs fast
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-p.wakes:
			if ready(true) {
				return nil
			}
		case <-late:
			return os.ErrDeadlineExceeded
		case <-p.interrupts:
			return os.ErrDeadlineExceeded
		}
	}
}

// Interrupt is kernel.Kernel's.
func (p *Poll) Interrupt() {
	select {
	case p.interrupts <- struct{}{}:
	default:
	}
}
