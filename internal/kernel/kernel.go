// Package kernel is the seam between a reader and what fills its rings: the real kernel, a
// simulated one, or a recording. Each kind of map has a Kernel of its own. A reader has one.
package kernel

import (
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/raw"
)

// Setup configures the rings to open.
type Setup struct {
	CPUs      []int // in order
	Follow    []int // CPUs that get rings if they come online later; nil: all
	RingBytes int   // data bytes of each, a power of two of pages
	NoTime    bool  // records have no time
	BootTime  bool  // Now is CLOCK_BOOTTIME
	Bell      bool  // rings are to have doorbells too

	// A ring's plain perf event wakes the reader after this many events, or bytes if that is not 0.
	WakeupEvents, WakeupBytes int

	Lanes   Lanes
	ProgFDs []int // programs whose skipped runs to count
}

// Opener opens rings.
type Opener interface {
	// RingBuf reports whether they are BPF ring buffers, whose options and wakeups differ.
	RingBuf() bool
	// Online returns the CPUs that are online, in order.
	Online() ([]int, error)
	// Open sets rings up and stores them in the map. The error wraps ENODEV if a CPU has gone
	// offline since Online.
	Open(Setup) (Kernel, error)
	// Close ends an Opener whose Open has not succeeded.
	Close()
}

// Kernel has the methods that every kernel implements; [Parts] has the optional ones. Rings count
// from 0. Methods may be called concurrently, except for Wait, which one goroutine calls at a time,
// and Free, which comes last.
type Kernel interface {
	// Rings returns the opened rings, in order of their CPUs. Hotplug opens later ones.
	Rings() []*raw.Ring
	// Now is CLOCK_MONOTONIC in ns, as the kernel stamps events, or the setup's clock.
	Now() uint64
	// Grace opens a way to wait for running programs. It has waited once when it returns.
	Grace(grace.Options) (grace.Provider, error)

	Poller
	// Group makes a Group of which this kernel is the first.
	Group() (Group, error)

	// Unhook takes the rings out of the map for good. The error says why some remain in the map:
	// outputs to these fail all the same.
	Unhook() error
	// Free unmaps the rings and closes the map. Call Unhook first. Nobody may touch the rings
	// afterwards.
	Free()
}

// Poller waits for the kernel's wakeups. One goroutine at a time calls Wait.
type Poller interface {
	// Wait calls ready before it blocks, with woken false, and after each wakeup, with woken true,
	// until ready reports true. It returns os.ErrDeadlineExceeded after until (zero: never) or
	// Interrupt.
	Wait(until time.Time, ready func(woken bool) bool) error
	// Interrupt ends the present Wait, if there is one.
	Interrupt()
}

// Sleeper is a Poller that can also sleep, more cheaply than Go's timers, and doze.
type Sleeper interface {
	// Doze is Wait without a deadline that may return without an error at any time, and does so
	// after a wakeup: woken is true then, and ready has not been called again.
	Doze(ready func(woken bool) bool) (woken bool, err error)
	// Sleep blocks until awake, which it calls as Wait calls ready, reports true. It ends and fails
	// as Wait does.
	Sleep(until time.Time, awake func() bool) error
}

// Group waits for several kernels: what wakes one of them wakes the group. Kernels come and go, one
// at a time, also while a goroutine waits.
type Group interface {
	Poller
	// Add takes in one more open kernel. The error says why the group cannot wait for it.
	Add(Kernel) error
	// Remove lets go of a kernel that is still open.
	Remove(Kernel)
	// Close ends the group. No Wait may be running.
	Close()
}
