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
// A wakeup is only a hint: the inner epoll is never asked which ring it was for, and every ring is looked at, before
// blocking too. It is the runtime's own epoll that asks, once for each wakeup of the kernel (ep_poll_callback in
// fs/eventpoll.c), so what stays unread wakes nobody again. perf_poll (kernel/events/core.c) forgets a wakeup as it reports it.
type Poller struct {
	file  *os.File
	conn  syscall.RawConn
	ready func(woken bool) bool
	asked bool
	ask   func(fd uintptr) bool // made once: it would allocate in every wait
}

// NewPoller waits on a duplicate of epollFD, so that it can be closed on its own.
func NewPoller(epollFD int) (*Poller, error) {
	fd, err := unix.FcntlInt(uintptr(epollFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("dup of the epoll descriptor: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or os.NewFile would not use the poller
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

// Wait is that of kernel.Poller.
func (p *Poller) Wait(deadline time.Time, ready func(woken bool) bool) error {
	p.ready = ready
	defer func() { p.ready = nil }() // whose it is may be forgotten, and is to be collected then

	err := p.file.SetReadDeadline(deadline)
	if err == nil {
		// RawConn.Read forgets earlier wakeups before it calls the function the first time, and
		// remembers later ones: a wakeup while the function looks at the heads is not missed.
		p.asked = false
		err = p.conn.Read(p.ask)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return os.ErrClosed // RawConn's own error for that is not os.ErrClosed
	}
	return err
}

// Interrupt is that of kernel.Poller.
func (p *Poller) Interrupt() { p.file.SetReadDeadline(past) }

// Close frees it, when nobody waits.
func (p *Poller) Close() { p.file.Close() }

// past is a deadline that is over.
var past = time.Unix(1, 0)
