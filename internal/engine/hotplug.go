package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	"weak"

	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// FollowerOptions connect a Follower to the reader whose rings it adds to.
type FollowerOptions struct {
	Kernel *kernel.Parts        // has Hotplug and Watcher
	Gate   *Gate                // of the rings
	Len    func() int           // of the reader's rings
	Room   int                  // the most rings that it can have
	Add    func(*raw.Ring)      // appends one
	Renew  func(ring int) error // puts a ring's perf event into the map
	full   string               // error format for a CPU that finds no room
}

// Follower gives a ring to each followed CPU that comes online, and new perf events to one that
// returns. It adds ring buffers from a map of maps the same way, by their ids. The zero Follower
// follows none. Only one goroutine may call Replug; the other methods may be called from anywhere.
type Follower struct {
	o     FollowerOptions
	unset []int // rings whose map entry could not be set

	reopened, added atomic.Uint64
	err             atomic.Pointer[error]
}

// Init sets the options. Call it before any other method.
func (f *Follower) Init(o FollowerOptions) { f.o = o }

// Start follows CPUs from now on. Its goroutine holds only a weak pointer, so the Follower, and the
// reader that contains it, can still be collected.
func (f *Follower) Start() { go follow(weak.Make(f), f.o.Kernel.Watcher) }

// Stop ends the goroutine of Start. It does not block.
func (f *Follower) Stop() {
	if f.o.Kernel != nil {
		f.o.Kernel.Watcher.StopWatching()
	}
}

// Counts returns how many returning CPUs got new perf events, and how many new CPUs got a ring.
func (f *Follower) Counts() (reopened, added uint64) { return f.reopened.Load(), f.added.Load() }

// Err returns the error of the latest Replug, or else why the kernel does not report changes.
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
			again = time.Second // by then there may be room, or descriptors
		}
	}
}

// Replug gives rings to new CPUs, and new perf events to those that have returned. It returns an
// error only if retrying may help.
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
		case failed == nil, errors.Is(failed, syscall.ENODEV): // the CPU is offline again
		case final: // it will never have a ring
			err = failed
		default:
			err, again = failed, failed
		}
	}
	f.err.Store(&err)
	return again
}

// plug makes sure that an online CPU has a ring. It returns final if the CPU can never have one.
func (f *Follower) plug(cpu int) (final bool, err error) {
	switch i := f.o.Kernel.Hotplug.Index(cpu); {
	case i < 0:
		return f.add(cpu)
	case f.o.Kernel.Returning != nil && !f.o.Kernel.Returning.Alive(i):
		return false, f.reopen(i)
	case slices.Contains(f.unset, i):
		return false, f.renew(i)
	}
	return false, nil
}

// reopen opens new perf events for the ring of a CPU that has returned.
func (f *Follower) reopen(ring int) error {
	if err := f.o.Kernel.Returning.Reopen(ring); err != nil {
		return err
	}
	f.reopened.Add(1)
	return f.renew(ring)
}

// renew puts a ring's new perf event into the map.
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
	i := f.o.Len()
	if i == f.o.Room {
		return true, fmt.Errorf(f.o.full, cpu)
	}
	memory, err := f.o.Kernel.Hotplug.Add(cpu)
	if err != nil {
		return errors.As(err, new(*host.MapError)), err // it has no entry for that CPU
	}
	f.o.Add(memory)
	f.added.Add(1)
	return false, f.renew(i)
}
