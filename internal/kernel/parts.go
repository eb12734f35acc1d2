package kernel

import (
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/raw"
)

// Parts are the optional interfaces of a Kernel. A part that a kernel lacks is nil.
type Parts struct {
	Named         Named
	Entries       Entries
	Displaceable  Displaceable
	LostCounter   LostCounter
	LossCounter   LossCounter
	OutputCounter OutputCounter
	Shedder       Shedder
	Hotplug       Hotplug
	Returning     Returning
	Watcher       Watcher
	Stepped       Stepped
}

// PartsOf returns the parts of a kernel.
func PartsOf(k Kernel) (p Parts) {
	p.Named, _ = k.(Named)
	p.Entries, _ = k.(Entries)
	p.Displaceable, _ = k.(Displaceable)
	p.LostCounter, _ = k.(LostCounter)
	p.LossCounter, _ = k.(LossCounter)
	p.OutputCounter, _ = k.(OutputCounter)
	p.Shedder, _ = k.(Shedder)
	p.Hotplug, _ = k.(Hotplug)
	p.Returning, _ = k.(Returning)
	p.Watcher, _ = k.(Watcher)
	p.Stepped, _ = k.(Stepped)
	return p
}

// Named is implemented by a Kernel whose map other processes can find.
type Named interface {
	// Map returns the map's id and name, as bpftool shows them.
	Map() (id int, name string)
}

// Map calls Named. It returns 0 for a map that no other process can read.
func (p *Parts) Map() (id int, name string) {
	if p.Named == nil {
		return 0, ""
	}
	return p.Named.Map()
}

// Entries is implemented by a Kernel whose rings are entries of a map.
type Entries interface {
	// Set changes a ring's entry in the map, which is Plain at first. Programs that found the entry
	// before the change still use the old one.
	Set(ring int, to Entry) error
	// Bells says why rings have no doorbells although Setup asks for them. It is nil if they have.
	Bells() error
	// Replaced returns how many of the map's entries were another reader's.
	Replaced() int
}

// Entry is the state of a CPU's entry in the map.
type Entry uint8

const (
	// Empty has no ring: outputs fail with ENOENT.
	Empty Entry = iota
	// Plain has the ring's perf event, which wakes the reader as its Setup says.
	Plain
	// Bell has the ring's doorbell, a perf event that wakes the reader at each output.
	Bell
)

// Set calls Entries. Without those there is nothing to change.
func (p *Parts) Set(ring int, to Entry) error {
	if p.Entries == nil {
		return nil
	}
	return p.Entries.Set(ring, to)
}

// Displaced says how other readers have changed a reader's entries in the map.
type Displaced struct {
	Entries    int    // replaced or emptied by others; one taken back may be taken again
	OwnedUntil uint64 // time of the latest look that found none of this
	Err        error  // why it cannot be known now; nil: it is known
}

// Displaceable is implemented by a Kernel whose entries other readers may take.
type Displaceable interface {
	// Displaced returns the findings of the latest looks. Set and Unhook look at an entry too.
	Displaced() Displaced
	// Watch looks at the entries regularly, and a last time in Unhook. It calls found, from any
	// goroutine, with the CPUs whose entries other readers have taken since the previous call.
	// since is the time when the entries were last seen to be this reader's.
	Watch(found func(cpus []int, since uint64))
}

// Displaced calls Displaceable. Without one, no reader can take anything.
func (p *Parts) Displaced() (d Displaced) {
	if p.Displaceable != nil {
		d = p.Displaceable.Displaced()
	}
	return d
}

// Replaced calls Entries. Without those there is nothing to replace.
func (p *Parts) Replaced() int {
	if p.Entries == nil {
		return 0
	}
	return p.Entries.Replaced()
}

// LostCounter is implemented by a Kernel that counts the outputs it has no room for.
type LostCounter interface {
	// Lost returns how many outputs to a ring have failed for want of room (PERF_FORMAT_LOST). It
	// interrupts the ring's CPU. ok is false if the kernel does not know.
	Lost(ring int) (n uint64, ok bool)
}

// Lost calls LostCounter. Without one, ok is false.
func (p *Parts) Lost(ring int) (n uint64, ok bool) {
	if p.LostCounter == nil {
		return 0, false
	}
	return p.LostCounter.Lost(ring)
}

// Hotplug is implemented by a Kernel that opens rings for CPUs that come online later. For ring
// buffers in a map of maps, the ids of the ring buffers stand for CPUs.
type Hotplug interface {
	// CPUs returns the CPUs that may have a ring some day.
	CPUs() []int
	// Online returns the CPUs that are online and to be read.
	Online() ([]int, error)
	// Index returns the index of an online CPU's ring, or -1 without one.
	Index(cpu int) int
	// Add opens a ring for a CPU that has none. It becomes the last ring, and is not in the map
	// yet.
	Add(cpu int) (*raw.Ring, error)
}

// Returning is implemented by a Hotplug whose CPUs may go offline and come back.
type Returning interface {
	// Alive reports whether outputs on a ring's CPU, which is online, land in the ring.
	Alive(ring int) bool
	// Reopen makes them land there again, once the map's entry is set again.
	Reopen(ring int) error
}

// Watcher is implemented by a Hotplug.
type Watcher interface {
	// Changed blocks until CPUs may have come or gone, or for atMost, if that is not 0. It returns
	// false after StopWatching.
	Changed(atMost time.Duration) bool
	StopWatching()
	// WatchErr says why Changed polls instead of waiting for the kernel to announce a change.
	WatchErr() error
}

// Stepped is implemented by a simulated Kernel in which one thing happens at a time.
type Stepped interface {
	// Yield lets the kernel take steps. The reader calls it wherever the order of both sides' steps
	// matters: between two loads of heads, after a store of a tail, and instead of sleeping. It
	// returns false in tests in which time passes by itself.
	Yield() bool
	// Drive gets the barrier of an ordered stream, not started. The simulation calls its Round when
	// it is Requested.
	Drive(*grace.Barrier)
}
