package perfevent

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits on an epoll descriptor in Go's runtime poller.
//
// perf_poll (kernel/events/core.c) reports a wake-up once and forgets it, and it is the runtime's
// own epoll that asks. So a wake-up is only a hint: the inner epoll is never asked which ring it
// was for, and every data_head is looked at, before blocking too.
type poller struct {
	file  *os.File
	conn  syscall.RawConn
	ready func(woken bool) bool
	asked bool
	ask   func(fd uintptr) bool // made once: it would allocate in every wait
}

// newPoller waits on a duplicate of epollFD, so that it can be closed on its own.
func newPoller(epollFD int) (*poller, error) {
	fd, err := unix.FcntlInt(uintptr(epollFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("dup of perf_buffer's epoll descriptor: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or os.NewFile would not use the poller
		unix.Close(fd)
		return nil, fmt.Errorf("O_NONBLOCK on perf_buffer's epoll descriptor: %w", err)
	}
	f := os.NewFile(uintptr(fd), "perf_buffer epoll")
	conn, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{}) // fails if the file is not in the poller
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("perf_buffer's epoll descriptor in the runtime poller: %w", err)
	}
	p := &poller{file: f, conn: conn}
	p.ask = func(uintptr) bool {
		woken := p.asked
		p.asked = true
		return p.ready(woken)
	}
	return p, nil
}

// Wait is that of kernel.Poller.
func (p *poller) Wait(deadline time.Time, ready func(woken bool) bool) error {
	p.ready = ready
	defer func() { p.ready = nil }() // whose it is may be forgotten, and is to be collected then

	err := p.file.SetReadDeadline(deadline)
	if err == nil {
		// RawConn.Read forgets earlier wake-ups before it calls the function the first time, and
		// remembers later ones: a wake-up while the function looks at the heads is not missed.
		p.asked = false
		err = p.conn.Read(p.ask)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return os.ErrClosed // RawConn's own error for that is not os.ErrClosed
	}
	return err
}

// Interrupt is that of kernel.Poller.
func (p *poller) Interrupt() { p.file.SetReadDeadline(past) }

// Close lets the descriptor go.
func (p *poller) Close() { p.file.Close() }

// past is a deadline that is over.
var past = time.Unix(1, 0)
