// Package hotplug gives rings to CPUs that come online, and new perf events to those that return. Ring buffers that are stored in a map of
// maps come the same way, by their ids.
package hotplug

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	"weak"

	"github.com/ringfold/ringfold/internal/gate"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/walk"
)

// Options are what a Follower needs of the reader whose rings it adds to.
type Options struct {
	Kernel *kernel.Parts // has Hotplug and Watcher
	Gate   *gate.Gate    // of the rings
	Rings  *walk.Rings
	Add    func(*raw.Ring)      // makes this the last of Rings
	Renew  func(ring int) error // puts a ring's perf event into the map
	Full   string               // why there is no room for one more, a format of its CPU
	// Refused says whether it is of no use to try again after an error of Kernel.Add, and what the user gets to see of it.
	Refused func(error) (final bool, public error)
}

// Follower sees to it that the CPUs that are to be read have rings when they are online. The zero Follower follows none.
// Replug and Reopen are for one goroutine, all else may be called from anywhere.
type Follower struct {
	o     Options
	unset []int // rings of which the entry in the map could not be set

	reopened, added atomic.Uint64
	err             atomic.Pointer[error]
}

// Init says whom to follow, and for whom. It comes before all else.
func (f *Follower) Init(o Options) { f.o = o }

// Start follows CPUs from now on, in a goroutine that does not keep the Follower, or what it is part of, from
// being collected.
func (f *Follower) Start() { go follow(weak.Make(f), f.o.Kernel.Watcher) }

// Stop ends that. It does not block.
func (f *Follower) Stop() {
	if f.o.Kernel != nil {
		f.o.Kernel.Watcher.StopWatching()
	}
}

// Counts returns how many CPUs were back and got new perf events, and how many were new and got a ring.
func (f *Follower) Counts() (reopened, added uint64) { return f.reopened.Load(), f.added.Load() }

// Err is why the latest of this failed, or why the kernel does not tell of changes.
func (f *Follower) Err() error {
	if err := f.err.Load(); err != nil && *err != nil {
		return *err
	}
	if f.o.Kernel != nil {
		return f.o.Kernel.Watcher.WatchErr()
	}
	return nil
}

func follow(follower weak.Pointer[Follower], watch kernel.Watcher) {
	var again time.Duration
	for watch.Changed(again) {
		f := follower.Value()
		if f == nil {
			return
		}
		again = 0
		if err := f.Replug(); err != nil {
			again = time.Second // there may be room then, or descriptors
		}
	}
}

// Replug gives rings to CPUs that have come, and to those that have come back. The error is why that may succeed
// later.
func (f *Follower) Replug() error {
	if err := f.o.Gate.Enter(); err != nil {
		return nil // closed
	}
	defer f.o.Gate.Leave()
	cpus, err := f.o.Kernel.Hotplug.Online()
	again := err
	for _, cpu := range cpus {
		final, failed := f.plug(cpu)
		switch {
		case failed == nil, errors.Is(failed, syscall.ENODEV): // it is gone again
		case final: // it will never have a ring
			err = failed
		default:
			err, again = failed, failed
		}
	}
	f.err.Store(&err)
	return again
}

// plug sees to it that an online CPU has a ring. final says that it never will.
func (f *Follower) plug(cpu int) (final bool, err error) {
	switch i := f.o.Kernel.Hotplug.Index(cpu); {
	case i < 0:
		return f.add(cpu)
	case f.o.Kernel.Returning != nil && !f.o.Kernel.Returning.Alive(i):
		return false, f.Reopen(i)
	case slices.Contains(f.unset, i):
		return false, f.renew(i)
	}
	return false, nil
}

// Reopen lets outputs of a CPU that is back go on to its ring.
func (f *Follower) Reopen(ring int) error {
	if err := f.o.Kernel.Returning.Reopen(ring); err != nil {
		return err
	}
	f.reopened.Add(1)
	return f.renew(ring)
}

// renew puts the perf event of a ring that has been opened into the map.
func (f *Follower) renew(ring int) error {
	f.unset = slices.DeleteFunc(f.unset, func(i int) bool { return i == ring })
	err := f.o.Renew(ring)
	if err != nil {
		f.unset = append(f.unset, ring)
	}
	return err
}

// add gives a new CPU a ring.
func (f *Follower) add(cpu int) (final bool, err error) {
	i := f.o.Rings.Len()
	if i == f.o.Rings.Room() {
		return true, fmt.Errorf(f.o.Full, cpu)
	}
	memory, err := f.o.Kernel.Hotplug.Add(cpu)
	if err != nil {
		return f.o.Refused(err)
	}
	f.o.Add(memory)
	f.added.Add(1)
	return false, f.renew(i)
}
