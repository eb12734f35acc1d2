package perfbuf

import (
	"errors"
	"fmt"
	"syscall"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/inject"
	"golang.org/x/sys/unix"
)

// openBells opens a second perf event for each ring, which writes to that ring and of which each
// output wakes. They are closed before the perf_buffer is freed.
func openBells(pb *libbpf.PerfBuffer, opts Options) (fds []int, err error) {
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	attr := opts.attr()
	attr.Bits &^= unix.PerfBitWatermark
	attr.Wakeup = 1 // wakeup_events
	for i, cpu := range opts.CPUs {
		ring, err := pb.BufferFD(i)
		if err != nil {
			return fds, err
		}
		fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, syscall.EINVAL) { // before Linux 6.0
			attr.Read_format = 0
			fd, err = unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		}
		if err != nil {
			return fds, fmt.Errorf("no doorbell: perf_event_open of the second perf event of CPU %d: %w", cpu, err)
		}
		fds = append(fds, fd)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, ring); err != nil {
			return fds, fmt.Errorf("no doorbell: PERF_EVENT_IOC_SET_OUTPUT on CPU %d: %w", cpu, err)
		}
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// setSlot stores one of a ring's perf events in the map, or none.
func setSlot(mapFD int, pb *libbpf.PerfBuffer, bells []int, cpu, ring int, to inject.Slot) error {
	switch to {
	case inject.SlotEmpty:
		if err := libbpf.MapDelete(mapFD, uint32(cpu)); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("CPU %d: %w", cpu, err)
		}
		return nil
	case inject.SlotPlain:
		fd, err := pb.BufferFD(ring)
		if err == nil {
			err = libbpf.MapUpdate(mapFD, uint32(cpu), uint32(fd))
		}
		if err != nil {
			return fmt.Errorf("CPU %d: %w", cpu, err)
		}
		return nil
	default:
		if err := libbpf.MapUpdate(mapFD, uint32(cpu), uint32(bells[ring])); err != nil {
			return fmt.Errorf("CPU %d: %w", cpu, err)
		}
		return nil
	}
}
