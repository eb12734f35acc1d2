package host

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// Pollable is a kernel that waits for an epoll descriptor.
type Pollable interface{ PollFD() int }

// Group nests the kernels' epoll descriptors in another one. Nesting takes a wakeup some hundred ns longer.
func Group(first Pollable, others []kernel.Kernel) (kernel.Group, error) {
	all, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	defer unix.Close(all) // the poller duplicates it
	members := []Pollable{first}
	for _, k := range others {
		m, ok := k.(Pollable)
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
	return NewPoller(all)
}
