package perfevent

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lost reads how many outputs to ring i, through any event, failed because the ring was full.
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

// readEvent reads a perf event (perf_read_one in kernel/events/core.c). enabled is how long the
// event has been on its CPU, in ns. lost, with PERF_FORMAT_LOST, is how many of its outputs failed
// because the ring was full. Events from perf_buffer__new report neither.
func readEvent(fd int) (enabled, lost uint64, err error) {
	var b [24]byte // the event's own count comes first, always 0 here
	n, err := unix.Read(fd, b[:])
	switch {
	case err != nil:
		return 0, 0, err
	case n < 8:
		return 0, 0, syscall.EIO // the event is in an error state
	}
	return binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:]), nil
}
