package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Poller waits for wakeups of epoll descriptors: in Go's poller, or where waits are frequent, and
// when it dozes, in a system call of its own. Where they are frequent, Go's poller takes twice the
// CPU time, as it wakes other threads; after a pause, it takes longer to wake.
//
// A wakeup is only a hint: Poller does not say which ring it was for. The reader looks at every
// ring, also before it blocks. System calls wait on a descriptor itself if it reports each wakeup
// once; otherwise, as Go's poller does, on an outer epoll that contains it. Such an outer epoll
// asks once for each wakeup of the kernel (ep_poll_callback in fs/eventpoll.c), so unread records
// cause no further wakeups. perf_poll (kernel/events/core.c) clears a wakeup as it reports it, so
// only one may ask at a time.
type Poller struct {
	calls sysPoller
	file  *os.File // for Go's poller: an epoll of the descriptors while parks, else of none
	conn  syscall.RawConn
	ready func(woken bool) bool
	asked bool
	err   error                 // of ask
	ask   func(fd uintptr) bool // made once: a new closure would allocate in every wait

	mu          sync.Mutex
	fds         []int // the descriptors
	parks       bool
	blocking    bool // the latest wait blocks in a system call, or has
	interrupted bool // since the start of Wait
	closed      bool
}

// NewPoller waits on an epoll descriptor, which remains the caller's. once says that it reports a
// wakeup once, as that of perf events does, and not until all is read.
func NewPoller(epoll int, once bool) (*Poller, error) {
	of := -1
	if once {
		of = epoll
	}
	p, err := newPoller(of)
	if err != nil {
		return nil, err
	}
	if err := p.add(epoll); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// newPoller makes a Poller whose system calls wait on this descriptor itself. If it is negative,
// they wait on those to be added.
func newPoller(direct int) (*Poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // else os.NewFile would not use the poller
		unix.Close(epoll)
		return nil, fmt.Errorf("O_NONBLOCK on the epoll descriptor: %w", err)
	}
	p := &Poller{file: os.NewFile(uintptr(epoll), "epoll of rings")}
	p.ask = p.askFirst
	if p.conn, err = p.file.SyscallConn(); err == nil {
		err = p.file.SetReadDeadline(time.Time{}) // fails if the file is not in the poller
	}
	if err != nil {
		err = fmt.Errorf("the epoll descriptor in the runtime poller: %w", err)
	} else {
		err = p.calls.open(direct)
	}
	if err != nil {
		p.file.Close()
		return nil, err
	}
	return p, nil
}

// add waits for one more descriptor.
func (p *Poller) add(fd int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.calls.direct {
		if err := control(p.calls.epoll, unix.EPOLL_CTL_ADD, fd, 0); err != nil {
			return err
		}
	}
	p.fds = append(p.fds, fd)
	if p.parks {
		return p.park(unix.EPOLL_CTL_ADD, fd)
	}
	return nil
}

// remove cannot fail for a descriptor that is open and was added.
func (p *Poller) remove(fd int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	control(p.calls.epoll, unix.EPOLL_CTL_DEL, fd, 0)
	p.fds = slices.DeleteFunc(p.fds, func(other int) bool { return other == fd })
	if p.parks {
		p.park(unix.EPOLL_CTL_DEL, fd)
	}
}

// park adds descriptors to the file, or removes them.
func (p *Poller) park(op int, fds ...int) (err error) {
	closed := p.conn.Control(func(epoll uintptr) {
		for _, fd := range fds {
			err = errors.Join(err, control(int(epoll), op, fd, 0))
		}
	})
	return errors.Join(err, closed)
}

// parking makes Go's poller watch the descriptors, or no longer watch them.
func (p *Poller) parking(parks bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parks == parks {
		return nil
	}
	p.parks = parks
	if parks {
		return p.park(unix.EPOLL_CTL_ADD, p.fds...)
	}
	return p.park(unix.EPOLL_CTL_DEL, p.fds...)
}

// control calls epoll_ctl. The entry has this mark.
func control(epoll, op, fd int, mark int32) error {
	if err := unix.EpollCtl(epoll, op, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Pad: mark}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// Wait implements kernel.Poller. Where waits are frequent, it blocks an OS thread.
func (p *Poller) Wait(until time.Time, ready func(woken bool) bool) error {
	if err := p.start(); err != nil {
		return err
	}
	if p.calls.suits(until) {
		return p.waitInCall(until, ready)
	}
	p.ready = ready
	defer func() { p.ready = nil }() // so that its owner can be garbage-collected
	err := p.file.SetReadDeadline(until)
	if err == nil {
		// RawConn.Read forgets earlier wakeups before it calls the function the first time, and
		// remembers later ones: a wakeup while the function looks at the heads is not lost.
		p.asked, p.err = false, nil
		err = p.conn.Read(p.ask)
	}
	switch {
	case p.err != nil:
		return p.err
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return os.ErrClosed // RawConn's own error is not os.ErrClosed
	}
	return err
}

func (p *Poller) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interrupted, p.blocking = false, false
	if p.closed {
		return os.ErrClosed
	}
	return nil
}

// askFirst is called when Go's poller has forgotten earlier wakeups, and after each later one.
func (p *Poller) askFirst(uintptr) bool {
	woken := p.asked
	p.asked = true
	if !woken {
		if p.err = p.parking(true); p.err != nil {
			return true
		}
	}
	return p.ready(woken)
}

// waitInCall is Wait in a system call.
func (p *Poller) waitInCall(until time.Time, ready func(woken bool) bool) error {
	if err := p.parking(false); err != nil {
		return err
	}
	p.calls.yield()
	for woken := false; !ready(woken); woken = true {
		if err := p.call(until); err != nil {
			return err
		}
	}
	return nil
}

// dozing counts the pollers of the process that doze. Each blocks a thread, so there are at most
// mostDozing: many readers may wait all the time.
var dozing atomic.Int32

const mostDozing = 8

// Doze implements kernel.Sleeper. It waits in a system call, for the time to the first event after
// a pause: all that lies between the call and the event is cold then.
func (p *Poller) Doze(ready func(woken bool) bool) (woken bool, err error) {
	if dozing.Add(1) <= mostDozing {
		if err = p.start(); err == nil {
			err = p.parking(false)
		}
		if err == nil && !ready(false) {
			err = p.call(time.Time{})
			woken = err == nil
		}
	}
	dozing.Add(-1)
	return woken, err
}

// call blocks in system calls until there is a wakeup.
func (p *Poller) call(until time.Time) error {
	for {
		if err := p.begin(); err != nil {
			return err
		}
		woken, err := p.calls.call(until)
		switch {
		case woken || err != nil:
			return err
		case !until.IsZero() && !time.Now().Before(until):
			return os.ErrDeadlineExceeded
		}
	}
}

// begin announces that the wait blocks, or returns why it ends. Nothing announces that it has
// returned: an interrupt after that ends a system call of the next wait, which then repeats it.
func (p *Poller) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return os.ErrClosed
	case p.interrupted:
		return os.ErrDeadlineExceeded
	}
	p.blocking = true
	return nil
}

// Sleep implements kernel.Sleeper.
func (p *Poller) Sleep(until time.Time, awake func() bool) error {
	return p.Wait(until, func(bool) bool { return awake() })
}

// Interrupt implements kernel.Poller.
func (p *Poller) Interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interrupted = true
	if p.blocking {
		p.calls.interrupt()
	} else {
		p.file.SetReadDeadline(past)
	}
}

// Close frees the poller. Nobody may be waiting.
func (p *Poller) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.calls.close()
		p.file.Close()
	}
}

// past is an expired deadline.
var past = time.Unix(1, 0)
