package host

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Poller waits on an epoll descriptor in Go's runtime poller.
//
// A wakeup is only a hint: Poller never asks the inner epoll which ring it was for. The reader
// looks at every ring, also before it blocks. The runtime's own epoll asks once for each wakeup of
// the kernel (ep_poll_callback in fs/eventpoll.c), so unread records cause no further wakeups.
// perf_poll (kernel/events/core.c) clears a wakeup as it reports it.
type Poller struct {
	file  *os.File
	conn  syscall.RawConn
	ready func(woken bool) bool
	asked bool
	ask   func(fd uintptr) bool // made once: a new closure would allocate in every wait
}

// NewPoller waits on a duplicate of epollFD, so that the caller may close its own.
func NewPoller(epollFD int) (*Poller, error) {
	fd, err := unix.FcntlInt(uintptr(epollFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("dup of the epoll descriptor: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // else os.NewFile would not use the poller
		unix.Close(fd)
		return nil, fmt.Errorf("O_NONBLOCK on the epoll descriptor: %w", err)
	}
	f := os.NewFile(uintptr(fd), "epoll of rings")
	conn, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{}) // fails if the file is not in the poller
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("the epoll descriptor in the runtime poller: %w", err)
	}
	p := &Poller{file: f, conn: conn}
	p.ask = func(uintptr) bool {
		woken := p.asked
		p.asked = true
		return p.ready(woken)
	}
	return p, nil
}

// Wait implements kernel.Poller.
func (p *Poller) Wait(deadline time.Time, ready func(woken bool) bool) error {
	p.ready = ready
	defer func() { p.ready = nil }() // so that its owner can be garbage-collected

	err := p.file.SetReadDeadline(deadline)
	if err == nil {
		// RawConn.Read forgets earlier wakeups before it calls the function the first time, and
		// remembers later ones: a wakeup while the function looks at the heads is not lost.
		p.asked = false
		err = p.conn.Read(p.ask)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return os.ErrClosed // RawConn's own error is not os.ErrClosed
	}
	return err
}

// Interrupt implements kernel.Poller.
func (p *Poller) Interrupt() { p.file.SetReadDeadline(past) }

// Close frees the poller. Nobody may be waiting.
func (p *Poller) Close() { p.file.Close() }

// past is an expired deadline.
var past = time.Unix(1, 0)
