package ringtest

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
)

// Poll waits for wakeups that come over a channel, as kernel.Kernel's Wait and Interrupt do.
type Poll struct {
	wakes      chan struct{} // of capacity 1. Like perf's readiness, one is remembered
	interrupts chan struct{}

	mu     sync.Mutex
	groups []*Poll // that wake with it
}

// NewPoll makes a Poll that nobody has woken yet.
func NewPoll() *Poll {
	return &Poll{wakes: make(chan struct{}, 1), interrupts: make(chan struct{}, 1)}
}

// Wake is the kernel's wakeup.
func (p *Poll) Wake() {
	p.mu.Lock()
	for _, g := range p.groups {
		g.Wake()
	}
	p.mu.Unlock()
	select {
	case p.wakes <- struct{}{}:
	default: // the last wakeup is still pending
	}
}

// Wakes receives a value after a wakeup that no Wait has consumed.
func (p *Poll) Wakes() <-chan struct{} { return p.wakes }

// Wait is kernel.Kernel's.
func (p *Poll) Wait(until time.Time, ready func(woken bool) bool) error {
	for _, forget := range []<-chan struct{}{p.wakes, p.interrupts} { // forget old ones
		select {
		case <-forget:
		default:
		}
	}
	if ready(false) {
		return nil
	}
	var late <-chan time.Time // nil without a deadline: never fires, even in a synctest bubble
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

// pollable is a kernel that waits by a Poll.
type pollable interface{ Polled() *Poll }

// Polled is the Poll of a kernel that embeds it.
func (p *Poll) Polled() *Poll { return p }

// group is a kernel.Group.
type group struct {
	*Poll
	of []*Poll
}

// Group is kernel.Kernel's.
func (p *Poll) Group() (kernel.Group, error) {
	g := &group{Poll: NewPoll()}
	g.take(p)
	return g, nil
}

// Add is kernel.Group's.
func (g *group) Add(k kernel.Kernel) error {
	member, ok := k.(pollable)
	if !ok {
		return errors.New("simulated rings and those of the kernel cannot be waited for together")
	}
	g.take(member.Polled())
	return nil
}

func (g *group) take(p *Poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups = append(p.groups, g.Poll)
	g.of = append(g.of, p)
}

// Remove is kernel.Group's.
func (g *group) Remove(k kernel.Kernel) {
	p := k.(pollable).Polled()
	g.of = slices.DeleteFunc(g.of, func(member *Poll) bool { return member == p })
	p.leave(g.Poll)
}

func (p *Poll) leave(g *Poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups = slices.DeleteFunc(p.groups, func(other *Poll) bool { return other == g })
}

// Close is kernel.Group's.
func (g *group) Close() {
	for _, p := range g.of {
		p.leave(g.Poll)
	}
}
