package perfevent

import (
	"cmp"
	"errors"

	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// Set stores one of ring i's perf events in the user's map, or empties the entry. It leaves alone
// an entry that the ring never held, has emptied, or has lost to another reader.
func (p *Events) Set(i int, to kernel.Entry) error {
	defer p.entries.report() // last, without a lock
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.put(i, to)
}

func (p *Events) put(i int, to kernel.Entry) error {
	e := &p.rings[i]
	p.lanes.Read(e.cpu, to != kernel.Empty)
	switch to {
	case kernel.Plain:
		return p.entries.set(e.cpu, e.plain)
	case kernel.Bell:
		return p.entries.set(e.cpu, e.bell)
	}
	return p.entries.empty(e.cpu)
}

// store puts all rings into the user's map, or none. It returns how many entries held somebody
// else's perf events.
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

// Unhook empties the map's entries for good, except those that another reader has taken. Where it
// cannot, it disables the perf events that may be there. Outputs then fail with EOPNOTSUPP
// (__bpf_perf_event_output in kernel/trace/bpf_trace.c). It returns the first error.
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

// Displaced returns how other readers have changed the entries. For rings that the kernel
// overwrites, it looks first, unless Unhook has looked for the last time: a snapshot depends on it.
func (p *Events) Displaced() kernel.Displaced {
	if p.overwrite {
		p.entries.lookAround()
	}
	return p.entries.displaced()
}

// Watch checks the entries periodically until Unhook.
func (p *Events) Watch(found func(cpus []int, since uint64)) { p.entries.watch(found) }

// disable ends all output to the ring, for good.
func (e *ringEvents) disable() {
	unix.IoctlSetInt(e.owner, unix.PERF_EVENT_IOC_DISABLE, 0)
	for fd := range e.others {
		unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0)
	}
}
