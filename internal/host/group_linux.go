package host

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// Pollable is a kernel that waits for an epoll descriptor.
type Pollable interface{ PollFD() int }

// group nests kernels' epoll descriptors in another one. Nesting delays a wakeup by some hundred
// ns.
type group struct{ *Poller }

// Group makes a group of one kernel.
func Group(first kernel.Kernel) (kernel.Group, error) {
	all, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	defer unix.Close(all) // the poller duplicates it
	p, err := NewPoller(all)
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
func (g group) Add(k kernel.Kernel) error { return g.control(unix.EPOLL_CTL_ADD, k) }

// Remove implements kernel.Group. It cannot fail for a descriptor that is open and in the group.
func (g group) Remove(k kernel.Kernel) { g.control(unix.EPOLL_CTL_DEL, k) }

func (g group) control(op int, k kernel.Kernel) (err error) {
	m, ok := k.(Pollable)
	if !ok {
		return errors.New("rings of the kernel and simulated ones cannot be waited for together")
	}
	fd := m.PollFD()
	closed := g.conn.Control(func(all uintptr) {
		if err = unix.EpollCtl(int(all), op, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			err = fmt.Errorf("epoll_ctl: %w", err)
		}
	})
	return cmp.Or(err, closed)
}
