package perfevent

import (
	"cmp"

	"golang.org/x/sys/unix"
)

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
