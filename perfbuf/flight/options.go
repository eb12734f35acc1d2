package flight

import (
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/perfbuf"
)

// Options configures a [Recorder]. The zero value is good for most uses.
type Options struct {
	// MaxBytes is the size of all rings together, in bytes. Each CPU that is online gets the same share, rounded
	// down to a power of two of pages. 0 is 512 KiB per CPU, the most that the kernel grants without CAP_IPC_LOCK
	// (perf_event_mlock_kb); the most is 1 GiB per CPU. It is locked memory. Snapshots take as much again.
	MaxBytes int

	// MinAge is how much time a snapshot covers: it leaves out older events. 0 is all that the
	// rings hold. Rings that are too small for it have less, as [Snapshot.Age] and Stats.Short
	// say.
	MinAge time.Duration

	// CPUs selects the CPUs to record. nil is all that are online, now or later.
	CPUs []int

	// Time is what orders events: the kernel's time if it is zero, or a perfbuf.PayloadTime. A sample that is too
	// short for the latter, or whose time is later than the kernel's, has the kernel's.
	Time perfbuf.TimeSource

	// Partial keeps the events before [Snapshot.CompleteSince] that CPUs with fewer events have left.
	Partial bool

	// Pause makes the kernel refuse outputs (PERF_EVENT_IOC_PAUSE_OUTPUT) while a snapshot copies the rings. They
	// fail with ENOSPC, and a [perfbuf.KindLost] in the next snapshot says how many. In exchange, nothing old is
	// overwritten meanwhile. It is for rings that programs fill faster than a snapshot copies them.
	Pause bool

	// Barriers selects how to wait for outputs that are under way, as in perfbuf.StreamOptions. 0 takes the best
	// that works here. NestLevels cannot be used.
	Barriers perfbuf.Barriers
}

const (
	defaultRingBytes = 512 << 10
	maxRingBytes     = 1 << 30
)

// effective checks the options and fills in defaults, given the CPUs that are online. It also returns the CPUs to record, and the size of each ring.
func (o Options) effective(online []int) (_ Options, cpus []int, ringBytes int, err error) {
	bad := func(format string, args ...any) (Options, []int, int, error) {
		return o, nil, 0, fmt.Errorf("flight.Options: "+format, args...)
	}
	cpus = online
	if o.CPUs != nil {
		cpus = slices.Clone(o.CPUs)
		slices.Sort(cpus)
		if len(cpus) == 0 {
			return bad("CPUs is empty: use nil for all online CPUs, or list those to record")
		}
		for i, cpu := range cpus {
			if !slices.Contains(online, cpu) {
				return bad("CPU %d is not online: choose from %v", cpu, online)
			}
			if i > 0 && cpus[i-1] == cpu {
				return bad("CPU %d is listed twice: list it once", cpu)
			}
		}
	}
	n, page := len(cpus), os.Getpagesize()
	if o.MaxBytes == 0 {
		o.MaxBytes = n * max(defaultRingBytes, page)
	}
	at, stamped := kernel.Face.PayloadTime(o.Time)
	switch {
	case o.MaxBytes < n*page:
		return bad("MaxBytes is %d: %d CPUs need at least a page of %d bytes each, %d in all", o.MaxBytes, n, page, n*page)
	case o.MaxBytes/n > maxRingBytes:
		return bad("MaxBytes is %d: use at most %d (1 GiB) per CPU, %d in all", o.MaxBytes, maxRingBytes, n*maxRingBytes)
	case o.MinAge < 0:
		return bad("MinAge is %v: must not be negative", o.MinAge)
	case stamped:
		return bad("Time is a StampedTime, which only BPF ring buffers have: use PayloadTime")
	case at < 0 && o.Time != (perfbuf.TimeSource{}):
		return bad("PayloadTime is at offset %d: must not be negative", at)
	case o.Barriers == perfbuf.NestLevels:
		return bad("Barriers is NestLevels alone, which waits for outputs, not for whole programs: allow another, too")
	}
	ringBytes = 1 << (bits.Len(uint(o.MaxBytes/n)) - 1)
	o.MaxBytes = n * ringBytes
	return o, cpus, ringBytes, nil
}

// Stats counts what a recorder has done.
type Stats struct {
	Rings     int           // one per CPU
	Written   uint64        // bytes of records that programs have output
	Refused   uint64        // outputs that failed while rings were paused: see Options.Pause. 0 before Linux 6.0, which does not tell
	Snapshots uint64        // that were taken
	Short     uint64        // of these, those with less than Options.MinAge
	LastTook  time.Duration // the latest one
	Barrier   string        // how it waits
	Plugged   uint64        // CPUs that came online and got rings, or came back
	// ReplacedEntries is how many of the map's entries another reader had, which receives nothing until it is restarted.
	ReplacedEntries int
	Displaced       perfbuf.DisplacedStats // what other readers have taken since: see [Recorder.Displaced]
	// Err says why a CPU that came online has no ring, or how the recorder looks for CPUs if the kernel's uevents
	// cannot be had; it is nil if all is well. The recorder tries again every second.
	Err error
}

// Stats returns the counts. On Linux 6.0 and newer, it interrupts the CPUs. It does not block.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	s := r.stats
	r.mu.Unlock()
	s.Written, s.Refused = r.kernel.Counts()
	s.Displaced = r.Displaced()
	s.Plugged, s.Err = r.kernel.Hotplug()
	s.Barrier, s.ReplacedEntries, s.Rings = r.kernel.Barrier(), r.kernel.Replaced(), len(r.kernel.list())
	return s
}

// Displaced looks whether other readers have taken the map's entries, of whose CPUs no more events arrive, or
// says why nobody can know: see perfbuf.ErrDisplaced. A recorder looks every 2 seconds, too, and when it takes
// a snapshot. To record the map again, close it and open another. Displaced does not block, and
// takes about a microsecond per CPU. After Close it returns what the last look has found.
func (r *Recorder) Displaced() perfbuf.DisplacedStats {
	return perfbuf.DisplacedStats(r.kernel.Displaced())
}
