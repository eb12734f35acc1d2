package perfevent

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapRings opens the perf events of some CPUs and maps their rings, as perf_buffer__new_raw does,
// but stores no events in a map. Programs without libbpf need it, and rings that the kernel
// overwrites: libbpf maps rings read-write, and the kernel never overwrites those (perf_mmap in
// kernel/events/core.c). After an error, the caller frees the rings too.
func (p *Events) mapRings(cpus []int) (rings []ringEvents, err error) {
	access := unix.PROT_READ
	if !p.overwrite {
		access |= unix.PROT_WRITE // of data_tail
	}
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&p.attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return rings, &callError{"perf_event_open", cpu, err}
		}
		memory, err := unix.Mmap(fd, 0, os.Getpagesize()+p.setup.RingBytes, access, unix.MAP_SHARED)
		if err != nil {
			unix.Close(fd)
			return rings, &callError{"mmap", cpu, err}
		}
		rings = append(rings, ringEvents{cpu: cpu, memory: memory, owner: fd, plain: fd})
	}
	return rings, nil
}

// openEpoll opens the descriptor for the wakeups of all rings, unless libbpf has.
func (p *Events) openEpoll() (err error) {
	if pb := p.rings[0].pb; pb != nil {
		p.epoll = pb.EpollFD()
		return nil
	}
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	for _, e := range p.rings {
		if err := p.addToEpoll(&e); err != nil {
			return err
		}
	}
	return nil
}

// addToEpoll makes wakeups of a ring's owner those of the reader. A ring's other perf events wake
// the owner's waiters, too (ring_buffer_wakeup, kernel/events/core.c).
func (p *Events) addToEpoll(e *ringEvents) error {
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, e.owner, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return &callError{"epoll_ctl", e.cpu, err}
	}
	return nil
}

// closeEpoll closes it, unless libbpf does.
func (p *Events) closeEpoll() {
	if p.rings[0].pb == nil && p.epoll > 0 {
		unix.Close(p.epoll)
	}
}

// callError names the system call that failed.
type callError struct {
	call string
	cpu  int
	err  error
}

func (e *callError) Error() string { return fmt.Sprintf("%s for CPU %d: %v", e.call, e.cpu, e.err) }
func (e *callError) Unwrap() error { return e.err }
