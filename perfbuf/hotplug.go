package perfbuf

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
	"weak"

	"github.com/ringfold/ringfold/internal/kernel"
)

// HotplugStats is how CPUs that came online after Open were followed.
type HotplugStats struct {
	Reopened uint64 // a CPU was back, and its ring got new perf events: the kernel closes a CPU's when it goes offline
	Added    uint64 // a CPU was new, and got a ring
	// Err is why the latest of this failed, nil if it did not, or why the list of CPUs is looked at twice
	// a second, instead of when the kernel tells of a change. What failed is tried again every second, unless
	// it is a [*MapError]: the map has no entry for that CPU.
	Err error
}

// follow sees to it, from now on, that the CPUs that are to be read have rings when they are online.
func (r *Reader) follow(h kernel.Hotplug) {
	r.hotplug = h
	go follow(weak.Make(r), h)
}

// follow does not keep the reader from being collected.
func follow(reader weak.Pointer[Reader], h kernel.Hotplug) {
	var again time.Duration
	for h.Changed(again) {
		r := reader.Value()
		if r == nil {
			return
		}
		again = 0
		if err := r.replug(); err != nil {
			again = time.Second // there may be room then, or descriptors
		}
	}
}

// replug gives rings to CPUs that have come, and to those that have come back. The error is why that may succeed
// later.
func (r *Reader) replug() error {
	if err := r.enter(); err != nil {
		return nil // closed
	}
	defer r.leave()
	cpus, err := r.hotplug.Online()
	again := err
	for _, cpu := range cpus {
		i := slices.IndexFunc(r.all(), func(ring *Ring) bool { return ring.CPU() == cpu })
		var failed error
		switch {
		case i < 0:
			failed = r.addRing(cpu)
		case !r.hotplug.Alive(i):
			failed = r.reopen(i)
		case r.rings[i].unset:
			failed = r.setEntry(r.rings[i])
		}
		switch {
		case failed == nil, errors.Is(failed, syscall.ENODEV): // it is gone again
		case errors.As(failed, new(*MapError)), errors.Is(failed, errImpossible): // it will never have a ring
			err = failed
		default:
			err, again = failed, failed
		}
	}
	r.counts.unplugged.Store(&err)
	return again
}

// errImpossible is of a CPU for which a reader has no place: the kernel did not tell of it when it was opened.
var errImpossible = errors.New("is online, and was not possible before")

// reopen lets outputs of a CPU that is back go on to its ring.
func (r *Reader) reopen(i int) error {
	if err := r.hotplug.Reopen(i); err != nil {
		return err
	}
	r.counts.reopened.Add(1)
	return r.setEntry(r.rings[i])
}

// setEntry puts the perf event of a ring that has been opened into the map.
func (r *Reader) setEntry(ring *Ring) error {
	err := r.entries.Renew(ring.index)
	ring.unset = err != nil
	return err
}

// addRing gives a new CPU a ring.
func (r *Reader) addRing(cpu int) error {
	i := r.walk.Len()
	if i == len(r.rings) {
		return fmt.Errorf("CPU %d %w", cpu, errImpossible)
	}
	memory, err := r.hotplug.Add(cpu)
	if err != nil {
		return public(err)
	}
	r.add(memory)
	r.counts.added.Add(1)
	return r.setEntry(r.rings[i])
}

// unplugged is HotplugStats.Err.
func (r *Reader) unplugged() error {
	if err := r.counts.unplugged.Load(); err != nil && *err != nil {
		return *err
	}
	if r.hotplug != nil {
		return r.hotplug.WatchErr()
	}
	return nil
}

// all returns the rings that there are.
func (r *Reader) all() []*Ring { return r.rings[:r.walk.Len()] }

// byCPU sorts rings by CPU number: those of CPUs that came later are at the end.
func byCPU(rings []*Ring) []*Ring {
	sorted := slices.Clone(rings)
	slices.SortFunc(sorted, func(a, b *Ring) int { return a.CPU() - b.CPU() })
	return sorted
}
