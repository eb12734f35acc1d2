package host

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sysPoller waits in epoll_pwait2(2).
type sysPoller struct {
	epoll   int  // of event and either the descriptors or what they contain
	direct  bool // epoll is the only descriptor itself, and its owner's
	event   int  // an eventfd
	cleanup runtime.Cleanup

	began, yielded time.Time
	frequent       int // how many waits in a row began shortly after another
}

// open makes a sysPoller of an epoll descriptor, which remains the caller's. If that is negative,
// descriptors are to be added.
func (p *sysPoller) open(epoll int) (err error) {
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	own := []int{p.event}
	if p.epoll, p.direct = epoll, epoll >= 0; !p.direct {
		if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
			unix.Close(p.event)
			return fmt.Errorf("epoll_create1: %w", err)
		}
		own = append(own, p.epoll)
	}
	p.cleanup = runtime.AddCleanup(p, closeAll, own)
	if err = control(p.epoll, unix.EPOLL_CTL_ADD, p.event, ofEvent); err != nil {
		p.close()
	}
	return err
}

// ofEvent marks the eventfd's entry. libbpf's have pointers there, whose upper half is another.
const ofEvent = -1

func (p *sysPoller) close() {
	p.cleanup.Stop()
	unix.Close(p.event)
	if !p.direct {
		unix.Close(p.epoll)
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// interrupt ends the present wait. Nobody reads the event: each write is an edge.
func (p *sysPoller) interrupt() {
	one := [8]byte{1}
	unix.Write(p.event, one[:])
}

const (
	// Waits are frequent if so many in a row begin within so much time of the one before.
	frequent = 8
	shortly  = 6 * time.Millisecond

	mostHeld = 4 * time.Millisecond // see yield; with one more wait, less than sysmon's 10 ms
)

// suits notes that a wait begins, and reports whether it had better be a system call, for the CPU
// time: waits are frequent. Where they are not, a system call takes twice the CPU time, because
// Go's sysmon looks every 20 us at a processor that it may not take yet.
func (p *sysPoller) suits(until time.Time) bool {
	now := time.Now()
	if now.Sub(p.began) > shortly {
		p.frequent = 0
	}
	p.began = now
	p.frequent++
	if !until.IsZero() && !until.After(now) {
		return false
	}
	return p.frequent > frequent
}

// yield lets the scheduler run from time to time. Go's sysmon takes the processor away from a
// goroutine that has not been scheduled for 10 ms, and from then on in each of its calls, which
// doubles what a wait costs (retake in runtime/proc.go).
func (p *sysPoller) yield() {
	if p.began.Sub(p.yielded) > mostHeld {
		p.yielded = p.began
		runtime.Gosched()
	}
}

var noPwait2 atomic.Bool // Linux before 5.11, or a seccomp filter

// call blocks until there are events, a signal, or until the deadline. woken says that there was
// more than an interrupt.
func (p *sysPoller) call(until time.Time) (woken bool, err error) {
	timeout := time.Duration(-1)
	if !until.IsZero() {
		timeout = max(time.Until(until), 0)
	}
	var events [32]unix.EpollEvent // what does not fit in ends the next wait, for nothing
	n, errno := uintptr(0), unix.ENOSYS
	if !noPwait2.Load() {
		type timespec struct{ sec, nsec int64 } // struct __kernel_timespec, on every architecture
		var limit *timespec
		if timeout >= 0 {
			limit = &timespec{int64(timeout / time.Second), int64(timeout % time.Second)}
		}
		// The kernel uses the events and the limit only during the call.
		n, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.epoll), uintptr(unsafe.Pointer(&events)), uintptr(len(events)),
			uintptr(unsafe.Pointer(limit)), 0, 0)
	}
	if errno == unix.ENOSYS || errno == unix.EPERM {
		noPwait2.Store(true)
		ms := -1
		if timeout >= 0 {
			ms = int(min((timeout+time.Millisecond-1)/time.Millisecond, 1<<30))
		}
		m, err := unix.EpollWait(p.epoll, events[:], ms)
		n = uintptr(max(m, 0))
		errno, _ = err.(unix.Errno)
	}
	switch errno {
	case 0:
	case unix.EINTR:
		return false, nil
	default:
		return false, fmt.Errorf("epoll_wait: %w", errno)
	}
	for i := range n {
		if events[i].Pad != ofEvent {
			return true, nil
		}
	}
	return false, nil
}
