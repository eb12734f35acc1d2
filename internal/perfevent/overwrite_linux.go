package perfevent

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapRings opens the perf events of some CPUs and maps rings that the kernel overwrites. libbpf
// maps rings read-write, and the kernel never overwrites those (perf_mmap in kernel/events/core.c).
func (p *Events) mapRings(cpus []int) (rings []ringEvents, err error) {
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&p.attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return rings, &callError{"perf_event_open", cpu, err}
		}
		memory, err := unix.Mmap(fd, 0, os.Getpagesize()+p.setup.RingBytes, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			unix.Close(fd)
			return rings, &callError{"mmap", cpu, err}
		}
		rings = append(rings, ringEvents{cpu: cpu, memory: memory, owner: fd, plain: fd})
	}
	return rings, nil
}

// callError names the system call that failed.
type callError struct {
	call string
	cpu  int
	err  error
}

func (e *callError) Error() string { return fmt.Sprintf("%s for CPU %d: %v", e.call, e.cpu, e.err) }
func (e *callError) Unwrap() error { return e.err }

// Pause makes the kernel refuse all outputs to these rings with ENOSPC, or accept them again
// (rb_toggle_paused in kernel/events/ring_buffer.c). Outputs under way continue. The kernel counts
// refused outputs, and reports them with the next accepted one.
func (p *Events) Pause(on bool) (failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	arg := 0
	if on {
		arg = 1
	}
	for _, e := range p.rings {
		if err := unix.IoctlSetInt(e.owner, unix.PERF_EVENT_IOC_PAUSE_OUTPUT, arg); err != nil {
			failed = cmp.Or(failed, error(&callError{"PERF_EVENT_IOC_PAUSE_OUTPUT", e.cpu, err}))
		}
	}
	return failed
}
