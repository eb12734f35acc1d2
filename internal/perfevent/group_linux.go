package perfevent

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// pollable is a kernel that waits for an epoll descriptor.
type pollable interface{ PollFD() int }

// PollFD is the epoll descriptor that wake-ups make readable.
func (p *Events) PollFD() int { return p.rings[0].pb.EpollFD() }

// Group nests the kernels' epoll descriptors in another one. Nesting takes a wake-up some hundred ns longer.
func (p *Events) Group(others []kernel.Kernel) (kernel.Group, error) { return newGroup(p, others) }

func newGroup(first pollable, others []kernel.Kernel) (kernel.Group, error) {
	all, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	defer unix.Close(all) // the poller duplicates it
	members := []pollable{first}
	for _, k := range others {
		m, ok := k.(pollable)
		if !ok {
			return nil, fmt.Errorf("rings of the kernel and simulated ones cannot be waited for together")
		}
		members = append(members, m)
	}
	for _, m := range members {
		fd := m.PollFD()
		if err := unix.EpollCtl(all, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return nil, fmt.Errorf("epoll_ctl: %w", err)
		}
	}
	return newPoller(all)
}
