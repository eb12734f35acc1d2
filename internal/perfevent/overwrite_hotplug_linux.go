package perfevent

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ringfold/ringfold/internal/cpulist"
	"golang.org/x/sys/unix"
)

// follow opens rings for CPUs that come online, and new events for CPUs that come back.
func (p *Overwritable) follow() {
	for atMost := time.Duration(0); p.watch.wait(atMost); {
		err := p.followOnce()
		if atMost = 0; err != nil {
			atMost = time.Second
		}
		p.mu.Lock()
		p.hot = err
		p.mu.Unlock()
	}
}

func (p *Overwritable) followOnce() (failed error) {
	online, err := cpulist.Online(cpulist.Dir)
	if err != nil {
		return err
	}
	for _, cpu := range online {
		if len(p.setup.Follow) == 0 || slices.Contains(p.setup.Follow, cpu) {
			failed = cmp.Or(failed, p.followCPU(cpu))
		}
	}
	return failed
}

func (p *Overwritable) followCPU(cpu int) error {
	// Only this goroutine changes p.rings.
	i := slices.IndexFunc(p.rings, func(r overwritten) bool { return r.cpu == cpu })
	if i >= 0 && alive(p.rings[i].event) {
		return nil
	}
	p.mu.Lock()
	err := p.plug(i, cpu)
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("a ring for CPU %d: %w", cpu, err)
	}
	if err := p.Wait(); err != nil { // outputs that missed the new entry have ended
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i < 0 {
		i = len(p.rings) - 1
	}
	p.rings[i].began = p.Now()
	p.added++
	return nil
}

// plug opens the ring of a CPU, or another event for its ring i.
func (p *Overwritable) plug(i, cpu int) error {
	if i < 0 {
		if err := p.open(cpu); err != nil {
			return err
		}
		i = len(p.rings) - 1
		p.rings[i].began = math.MaxUint64 - 1 // until all outputs find the new event
		return p.entries.set(cpu, p.rings[i].event)
	}
	r := &p.rings[i]
	fd, err := p.event(cpu)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.owner); err != nil {
		unix.Close(fd)
		return &callError{"PERF_EVENT_IOC_SET_OUTPUT", cpu, err}
	}
	if r.event != r.owner {
		unix.Close(r.event) // the map still holds it
	}
	r.event, r.began = fd, math.MaxUint64-1
	return p.entries.set(cpu, fd)
}
