package perfevent

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/raw"
	"golang.org/x/sys/unix"
)

// Online returns the CPUs to read that are online.
func (p *Events) Online() ([]int, error) {
	online, err := cpulist.Online(cpulist.Dir)
	if named := p.setup.Follow; err == nil && len(named) > 0 {
		online = slices.DeleteFunc(online, func(cpu int) bool { return !slices.Contains(named, cpu) })
	}
	return online, err
}

// Index returns the index of a CPU's ring, or -1.
func (p *Events) Index(cpu int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.IndexFunc(p.rings, func(e ringEvents) bool { return e.cpu == cpu })
}

// Alive reports whether outputs on ring i's CPU, which is online, land in the ring. They do not if
// the CPU has been offline since the event was opened. The kernel then removed the event from the
// CPU's context (perf_event_exit_cpu_context). Enabling does not put it back, and its clock stands
// still.
func (p *Events) Alive(i int) bool {
	return alive(p.rings[i].plain) // only Reopen by the same caller changes it
}

func alive(fd int) bool {
	before, _, err := readEvent(fd)
	if err != nil {
		return false
	}
	for range 20 {
		if now, _, err := readEvent(fd); err != nil || now != before {
			return err == nil
		}
		time.Sleep(time.Millisecond) // some clocks are coarse
	}
	return false
}

// Reopen opens new perf events for ring i. The map's entry still holds the old one.
func (p *Events) Reopen(i int) error {
	e := p.rings[i]
	var err error
	if e.plain, err = openOnto(&e, p.attr); err != nil {
		return err
	}
	if p.bells {
		if err := p.openBell(&e); err != nil {
			unix.Close(e.plain)
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := &p.rings[i]
	for fd := range old.others {
		if _, lost, err := readEvent(fd); err == nil {
			old.lost += lost
		}
	}
	old.close() // the map still holds them
	old.plain, old.bell = e.plain, e.bell
	return nil
}

// Add opens a ring for a CPU that has none, without storing it in the map.
func (p *Events) Add(cpu int) (*raw.Ring, error) {
	if cpu >= p.entries.MaxEntries {
		return nil, tooSmall(p.entries.Map, cpu)
	}
	rings, err := p.openRings([]int{cpu})
	if err != nil {
		free(rings)
		return nil, explain(fmt.Errorf("a ring for CPU %d: %w", cpu, err), p.setup.RingBytes)
	}
	e := &rings[0]
	memory, err := p.ring(e)
	if err == nil && !p.overwrite {
		err = p.addToEpoll(e)
	}
	if err == nil && p.bells {
		err = p.openBell(e)
	}
	if err != nil {
		free(rings) // closing also removes it from the epoll set
		return nil, fmt.Errorf("a ring for CPU %d: %w", cpu, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rings = append(p.rings, *e)
	p.measure(cpu, memory)
	return memory, nil
}

// CPUs returns all CPUs that may ever get a ring.
func (p *Events) CPUs() []int {
	if len(p.setup.Follow) > 0 {
		return p.setup.Follow
	}
	cpus, err := cpulist.Possible(cpulist.Dir)
	if err != nil {
		return nil // then Add is never called
	}
	return cpus
}

// Changed blocks until CPUs may have come or gone.
func (p *Events) Changed(atMost time.Duration) bool { return p.watch.wait(atMost) }

// StopWatching ends Changed.
func (p *Events) StopWatching() { p.watch.close() }

// WatchErr returns why Changed polls instead of waiting for uevents.
func (p *Events) WatchErr() error { return p.watch.err() }
