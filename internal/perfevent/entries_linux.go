package perfevent

import (
	"cmp"
	"errors"

	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// Set stores one of ring i's perf events in the user's map, or none. An entry that never was the ring's, has
// been emptied, or is another reader's by now is left as it is.
func (p *Events) Set(i int, to kernel.Entry) error {
	defer p.entries.report() // last, with no lock
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.put(i, to)
}

func (p *Events) put(i int, to kernel.Entry) error {
	e := &p.rings[i]
	switch to {
	case kernel.Plain:
		return p.entries.set(e.cpu, e.plain)
	case kernel.Bell:
		return p.entries.set(e.cpu, e.bell)
	}
	return p.entries.empty(e.cpu)
}

// store puts all rings into the user's map, or none. It returns how many entries held perf events of
// somebody else.
func (p *Events) store() (replaced int, err error) {
	for i := range p.rings {
		had, err := p.entries.take(p.rings[i].cpu, p.rings[i].plain)
		if err != nil {
			return 0, errors.Join(err, p.Unhook())
		}
		if had {
			replaced++
		}
	}
	return replaced, nil
}

// Unhook empties the map's entries, for good, but for those that are another reader's by now. Where it cannot, it disables the perf events
// that may be there: outputs then fail with EOPNOTSUPP (__bpf_perf_event_output in kernel/trace/bpf_trace.c). The error is the first.
func (p *Events) Unhook() (failed error) {
	p.entries.unwatch()
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

// Displaced is what other readers have done to the entries.
func (p *Events) Displaced() kernel.Displaced { return p.entries.displaced() }

// Watch looks at the entries every now and then, until Unhook.
func (p *Events) Watch(found func(cpus []int, since uint64)) { p.entries.watch(found) }

// disable ends all output to the ring. There is no way back.
func (e *ringEvents) disable() {
	unix.IoctlSetInt(e.owner, unix.PERF_EVENT_IOC_DISABLE, 0)
	for fd := range e.others {
		unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0)
	}
}
