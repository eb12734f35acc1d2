package perfevent

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lost reads how many outputs to ring i have failed for want of room, through whichever event.
func (p *Events) Lost(i int) (n uint64, ok bool) {
	if !p.countsLost() {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rings[i].countLost()
}

func (e *ringEvents) countLost() (n uint64, ok bool) {
	_, n, err := readEvent(e.owner)
	if err != nil {
		return 0, false
	}
	for fd := range e.others {
		_, more, err := readEvent(fd)
		if err != nil {
			return 0, false
		}
		n += more
	}
	return n + e.lost, true
}

// readEvent is read(2) of a perf event (perf_read_one in kernel/events/core.c): for how long it has been on
// its CPU, in ns, and, with PERF_FORMAT_LOST, how many of its outputs have failed for want of room. An event
// of perf_buffer__new tells neither.
func readEvent(fd int) (enabled, lost uint64, err error) {
	var b [24]byte // the event's own count comes first, and is always 0 here
	n, err := unix.Read(fd, b[:])
	switch {
	case err != nil:
		return 0, 0, err
	case n < 8:
		return 0, 0, syscall.EIO // of an event in an error state
	}
	return binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:]), nil
}
