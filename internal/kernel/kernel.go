// Package kernel is the seam between a reader and what fills its rings: the real kernel, which package
// perfevent asks through libbpf, or one that tests simulate. A reader has one Kernel; rings of another
// kind of map, or of a recording, come in as another.
package kernel

import (
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/raw"
)

// Setup is what rings are to be like.
type Setup struct {
	CPUs      []int // in order
	Follow    []int // of CPUs that come later, those that are to have rings; nil: all
	RingBytes int   // data bytes of each, a power of two of pages
	NoTime    bool  // records have no time
	Bell      bool  // rings are to have a doorbell besides

	// When a ring's plain perf event wakes the reader: after so many events, or so many bytes if that is not 0.
	WakeupEvents, WakeupBytes int

	Outputs OutputCounts
}

// Opener opens rings.
type Opener interface {
	// Online returns the CPUs that are online, in order.
	Online() ([]int, error)
	// Open sets rings up, and stores them in the map. It wraps ENODEV if a CPU has gone offline since Online.
	Open(Setup) (Kernel, error)
	// Close is for one of which Open has not succeeded.
	Close()
}

// Entry is what the map holds for a CPU.
type Entry uint8

const (
	// Empty is nothing: outputs fail with ENOENT.
	Empty Entry = iota
	// Plain is the ring's perf event, which wakes the reader as its Setup says.
	Plain
	// Bell is the ring's doorbell, a perf event of which each output wakes the reader.
	Bell
)

// Kernel is what a reader asks of the kernel, apart from the memory of rings. Rings count from 0. Methods may be called
// at the same time, but for Wait, which one goroutine calls at a time, and Free, which comes last.
type Kernel interface {
	// Rings returns the rings that were opened, in order of their CPUs. Later ones come from Hotplug.
	Rings() []*raw.Ring
	// CPUs returns the CPUs that may have a ring some day.
	CPUs() []int
	// Bells says why rings have no doorbells, though Setup asks for them. It is nil if they have.
	Bells() error
	// Replaced is how many of the map's entries were another reader's.
	Replaced() int
	// Map is the map's id and name, as bpftool shows them; 0 for one that nobody else can read.
	Map() (id int, name string)

	// Set changes a ring's entry in the map, which is Plain at first. Programs that have found the one before
	// still use that.
	Set(ring int, to Entry) error
	// Lost is how many outputs to a ring have failed for want of room (PERF_FORMAT_LOST); ok is false if the kernel
	// does not know. It interrupts the ring's CPU.
	Lost(ring int) (n uint64, ok bool)
	// Now is CLOCK_MONOTONIC in ns, as the kernel stamps events.
	Now() uint64
	// Grace opens a way to wait for running programs, and has then waited once.
	Grace(grace.Options) (grace.Provider, error)

	Poller
	// Group makes a Group of which this kernel is the first.
	Group() (Group, error)

	// Unhook takes the rings out of the map, for good. The error is why that failed for some: outputs to these
	// fail all the same.
	Unhook() error
	// Free unmaps the rings, and lets the map go. Call Unhook first; no one may touch them from then on.
	Free()
}

// Poller waits for the kernel's wakeups. One goroutine at a time calls Wait.
type Poller interface {
	// Wait asks ready before it blocks, with woken false, and after each wakeup, with woken true, until that
	// reports true. It returns os.ErrDeadlineExceeded after until (zero: never) or Interrupt.
	Wait(until time.Time, ready func(woken bool) bool) error
	// Interrupt ends the present Wait, if there is one.
	Interrupt()
}

// Group is a Poller that whatever wakes one of several kernels wakes. Kernels come and go while somebody waits, one at a time.
type Group interface {
	Poller
	// Add takes in one more, which must be open. The error says why it cannot be waited for together with the others.
	Add(Kernel) error
	// Remove lets go of one that is still open.
	Remove(Kernel)
	// Close is for when nobody waits.
	Close()
}

// Hotplug is implemented by a Kernel whose CPUs come and go.
type Hotplug interface {
	// Online returns the CPUs that are online and to be read.
	Online() ([]int, error)
	// Index is which ring a CPU that is online has, -1 if none. For ring buffers in a map of maps, their ids are what CPUs are here.
	Index(cpu int) int
	// Alive says whether outputs on a ring's CPU, which is online, land in it.
	Alive(ring int) bool
	// Reopen makes them do so, once the map's entry is set again.
	Reopen(ring int) error
	// Add opens a ring for a CPU that has none. It is the next one, and not in the map yet.
	Add(cpu int) (*raw.Ring, error)

	// Changed blocks until CPUs may have come or gone, or for atMost, if that is not 0. It returns false after
	// StopWatching.
	Changed(atMost time.Duration) bool
	StopWatching()
	// WatchErr says why Changed looks every now and then, instead of when the kernel announces a change.
	WatchErr() error
}

// Displaced is what other readers have done to a reader's entries of the map.
type Displaced struct {
	Entries    int    // that they have replaced or emptied; one that was taken back may be taken again
	OwnedUntil uint64 // the latest time when none of this was so, as far as looks have found
	Err        error  // why it cannot be known now; nil: it is known
}

// Displaceable is implemented by a Kernel whose entries other readers may take.
type Displaceable interface {
	// Displaced is what the latest looks have found. Set and Unhook look at an entry too.
	Displaced() Displaced
	// Watch looks every now and then, and at last in Unhook. It has found called, from any goroutine, with the CPUs
	// whose entries others have taken since the last time, and when these were last seen to be the reader's.
	Watch(found func(cpus []int, since uint64))
}

// Stepped is implemented by a Kernel of a simulation in which one thing happens at a time.
type Stepped interface {
	// Yield is called wherever the reader's steps and the kernel's may interleave in a way that matters: between
	// two loads of heads, after a store of a tail, and while it sleeps. False is for tests in which time passes by itself.
	Yield() bool
	// Drive gets the barrier of an ordered stream, which is not started: the simulation calls its Round when it
	// is Requested.
	Drive(*grace.Barrier)
}

// OpenReader makes a *perfbuf.Reader, given perfbuf.Options, of rings that another Opener than perfbuf's own opens:
// for perfbuftest and perfchan, whose rings are no matter of perfbuf's API. countUnreported has its Stats know of the losses that no
// record has reported yet, of rings that nobody reads. Package perfbuf sets it.
var OpenReader func(o Opener, options any) (reader any, countUnreported func(), err error)

// OpenRingBufReader is OpenReader of BPF ring buffers, given perfbuf.RingBufOptions: the Opener knows where payloads have fields.
var OpenRingBufReader func(o Opener, options any) (reader any, err error)
