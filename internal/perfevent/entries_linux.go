package perfevent

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// Set stores one of ring i's perf events in the user's map, or none. An entry that never was the ring's, or
// has been emptied, is left as it is.
func (p *Events) Set(i int, to kernel.Entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.put(i, to)
}

func (p *Events) put(i int, to kernel.Entry) error {
	e, err := &p.rings[i], error(nil)
	switch to {
	case kernel.Empty:
		if !e.held {
			return nil
		}
		if err = libbpf.MapDelete(p.target, uint32(e.cpu)); errors.Is(err, syscall.ENOENT) {
			err = nil
		}
	case kernel.Plain:
		err = libbpf.MapUpdate(p.target, uint32(e.cpu), uint32(e.plain))
	case kernel.Bell:
		err = libbpf.MapUpdate(p.target, uint32(e.cpu), uint32(e.bell))
	}
	if err != nil { // the entry is what it was
		return fmt.Errorf("the map's entry of CPU %d: %w", e.cpu, err)
	}
	e.held = to != kernel.Empty
	return nil
}

// store puts all rings into the user's map, or none. It returns how many entries held perf events of
// somebody else.
func (p *Events) store() (displaced int, err error) {
	for i := range p.rings {
		// An entry cannot be looked at from here (perf_event_fd_array_map_lookup), but deleting one says
		// whether there was any.
		if libbpf.MapDelete(p.target, uint32(p.rings[i].cpu)) == nil {
			displaced++
		}
		if err := p.Set(i, kernel.Plain); err != nil {
			return 0, errors.Join(err, p.Unhook())
		}
	}
	return displaced, nil
}

// Unhook empties the map's entries, for good. Where it cannot, it disables the perf events that may be there:
// outputs then fail with EOPNOTSUPP (__bpf_perf_event_output in kernel/trace/bpf_trace.c). The error is the first.
func (p *Events) Unhook() (failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rings {
		if err := p.put(i, kernel.Empty); err != nil {
			p.rings[i].disable()
			failed = cmp.Or(failed, err)
		}
	}
	return failed
}

// disable ends all output to the ring. There is no way back.
func (e *ringEvents) disable() {
	unix.IoctlSetInt(e.owner, unix.PERF_EVENT_IOC_DISABLE, 0)
	for fd := range e.others {
		unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0)
	}
}
