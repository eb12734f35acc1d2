package perfevent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpuWatch learns of CPU hotplug from the kernel's uevents (device_online in drivers/base/core.c),
// as udev does. It costs an idle reader nothing.
type cpuWatch struct {
	socket *os.File      // nil: no socket, so it polls every pollInterval
	why    error         // why there is no socket
	closed chan struct{} // ends polling
}

// pollInterval is how often to read the list of CPUs without uevents.
const pollInterval = 500 * time.Millisecond

func watchCPUs() *cpuWatch {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err == nil {
		// Group 1 has the kernel's own uevents.
		if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
			unix.Close(fd)
		}
	}
	var socket *os.File
	if err == nil {
		socket = os.NewFile(uintptr(fd), "uevents")
		if err = socket.SetReadDeadline(time.Time{}); err != nil { // not in the runtime's poller
			socket.Close()
		}
	}
	if err != nil {
		why := fmt.Errorf("no netlink socket for uevents, so the list of CPUs is read every %v: %w", pollInterval, err)
		return &cpuWatch{why: why, closed: make(chan struct{})}
	}
	return &cpuWatch{socket: socket}
}

func (w *cpuWatch) err() error { return w.why }

// wait blocks until a CPU has come or gone, or for atMost if that is not 0. It returns false after
// close.
func (w *cpuWatch) wait(atMost time.Duration) bool {
	if w.socket == nil {
		select {
		case <-time.After(pollInterval):
			return true
		case <-w.closed:
			return false
		}
	}
	var deadline time.Time
	if atMost > 0 {
		deadline = time.Now().Add(atMost)
	}
	w.socket.SetReadDeadline(deadline)
	// A uevent begins with "online@/devices/system/cpu/cpu3", and the rest does not matter
	// (uevent_net_broadcast in lib/kobject_uevent.c). A buffer for all of it would make the
	// goroutine's stack the largest part of a reader's memory.
	buf := make([]byte, 64)
	for {
		n, err := w.socket.Read(buf)
		switch {
		case err == nil:
			if bytes.Contains(buf[:n], []byte("@/devices/system/cpu/cpu")) {
				return true
			}
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.ENOBUFS): // some dropped
			return true
		default:
			return false
		}
	}
}

func (w *cpuWatch) close() {
	if w.socket == nil {
		close(w.closed)
		return
	}
	w.socket.Close()
}
