package host

import (
	"errors"

	"github.com/ringfold/ringfold/internal/kernel"
)

// pollable is a kernel that waits for an epoll descriptor.
type pollable interface{ PollFD() int }

// group waits for the epoll descriptors of several kernels.
type group struct{ *Poller }

// Group makes a group of one kernel.
func Group(first kernel.Kernel) (kernel.Group, error) {
	p, err := newPoller(-1)
	if err != nil {
		return nil, err
	}
	g := group{p}
	if err := g.Add(first); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Add implements kernel.Group.
func (g group) Add(k kernel.Kernel) error {
	m, ok := k.(pollable)
	if !ok {
		return errors.New("rings of the kernel and simulated ones cannot be waited for together")
	}
	return g.add(m.PollFD())
}

// Remove implements kernel.Group. It cannot fail for a descriptor that is open and in the group.
func (g group) Remove(k kernel.Kernel) { g.remove(k.(pollable).PollFD()) }
