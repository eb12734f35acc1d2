package flight

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"time"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/perfbuf"
)

// Options configures a [Recorder]. The zero value is good for most uses.
type Options struct {
	// Name is what [perfbuf.Event.Source] returns, to tell events in a [Merge] apart.
	Name string

	// MaxBytes is the size of all rings together, in bytes. Each online CPU gets the same share,
	// rounded down to a power of two of pages. 0 is 512 KiB per CPU, the most that the kernel
	// grants without CAP_IPC_LOCK (perf_event_mlock_kb). The limit is 1 GiB per CPU. It is locked
	// memory. Snapshots take as much again. BPF ring buffers have the size of their maps: leave it
	// 0.
	MaxBytes int

	// MinAge is the time that a snapshot covers: it leaves out older events. 0 keeps all that the
	// rings hold. If the rings are too small, snapshots cover less: see [Snapshot.Age] and
	// Stats.Short.
	MinAge time.Duration

	// CPUs selects the CPUs to record. nil selects all that are online, now or later. Leave it nil
	// for BPF ring buffers.
	CPUs []int

	// Time selects the time that orders events: the kernel's time if it is zero, or a
	// perfbuf.PayloadTime. The kernel's time replaces a payload time that is missing or later than
	// the kernel's. BPF ring buffers have no kernel times, so they need a PayloadTime or
	// StampedTime; an event too short for it has the time of its predecessor in the ring.
	Time perfbuf.TimeSource

	// CPU says where payloads in BPF ring buffers hold the CPU: see perfbuf.Options. Perf
	// events have it from their rings.
	CPU perfbuf.CPUSource

	// Partial keeps events before [Snapshot.CompleteSince], of CPUs whose rings reach further back.
	Partial bool

	// Pause makes the kernel refuse outputs (PERF_EVENT_IOC_PAUSE_OUTPUT) while a snapshot copies
	// the rings. They fail with ENOSPC, and a [perfbuf.KindLost] in the next snapshot counts them.
	// In exchange, no event is overwritten during the copy. Use it for rings that programs fill
	// faster than a snapshot copies them. BPF ring buffers cannot be paused.
	Pause bool

	// Barriers selects how to wait for outputs that are under way, as in perfbuf.StreamOptions. 0
	// takes the best available kind. NestLevels cannot be used.
	Barriers perfbuf.Barriers
}

const (
	defaultRingBytes = 512 << 10
	maxRingBytes     = 1 << 30
)

// effective checks the options and fills in defaults, given the online CPUs. It also returns the
// CPUs to record and the size of each ring.
func (o Options) effective(online []int) (_ Options, cpus []int, ringBytes int, err error) {
	bad := func(format string, args ...any) (Options, []int, int, error) {
		return o, nil, 0, fmt.Errorf("flight.Options: "+format, args...)
	}
	if cpus, err = kernel.PickCPUs(o.CPUs, online); err != nil {
		return bad("%w", err)
	}
	n, page := len(cpus), os.Getpagesize()
	if o.MaxBytes == 0 {
		o.MaxBytes = n * max(defaultRingBytes, page)
	}
	switch {
	case o.MaxBytes < n*page:
		return bad("MaxBytes is %d: %d CPUs need at least a page of %d bytes each, %d in all", o.MaxBytes, n, page, n*page)
	case o.MaxBytes/n > maxRingBytes:
		return bad("MaxBytes is %d: use at most %d (1 GiB) per CPU, %d in all", o.MaxBytes, maxRingBytes, n*maxRingBytes)
	case o.Time == perfbuf.StampedTime(o.Time.Offset()):
		return bad("Time is a StampedTime, which only BPF ring buffers have: use PayloadTime")
	case o.CPU != perfbuf.CPUSource{}:
		return bad("CPU is set, which only BPF ring buffers need: leave it out")
	}
	if err := o.check(); err != nil {
		return bad("%w", err)
	}
	ringBytes = 1 << (bits.Len(uint(o.MaxBytes/n)) - 1)
	o.MaxBytes = n * ringBytes
	return o, cpus, ringBytes, nil
}

// effectiveRingBuf checks the options for BPF ring buffers.
func (o Options) effectiveRingBuf() error {
	err := o.check()
	switch {
	case err != nil:
	case o.MaxBytes != 0 || o.CPUs != nil || o.Pause:
		err = errors.New("MaxBytes, CPUs or Pause is set, which BPF ring buffers do not have: leave them out")
	case o.Time == perfbuf.TimeSource{}:
		err = errors.New("the Time is zero, but the kernel takes no times in BPF ring buffers: put one into the payload and use PayloadTime")
	}
	if err != nil {
		err = fmt.Errorf("flight.Options: %w", err)
	}
	return err
}

// check checks the options that do not depend on the type of the map.
func (o Options) check() error {
	at, cpuAt := o.Time.Offset(), o.CPU.Offset()
	switch {
	case o.MinAge < 0:
		return fmt.Errorf("MinAge is %v: must not be negative", o.MinAge)
	case o.Time == perfbuf.PayloadBootTime(at):
		return errors.New("PayloadBootTime cannot be compared with the kernel's times: use PayloadTime")
	case at < 0 && o.Time != (perfbuf.TimeSource{}) || cpuAt < 0 && o.CPU != (perfbuf.CPUSource{}):
		return fmt.Errorf("PayloadTime is at offset %d and PayloadCPU at %d: must not be negative", at, cpuAt)
	case o.Barriers == perfbuf.NestLevels:
		return errors.New("NestLevels alone as Barriers waits for outputs, not for whole programs: allow another, too")
	}
	return nil
}

// Stats holds a recorder's counts.
type Stats struct {
	Rings   int    // one per CPU, or the BPF ring buffers
	Written uint64 // bytes of records that programs have output, to a BPF ring buffer since it exists
	// Refused counts outputs that failed while rings were paused (see Options.Pause). It is 0
	// before Linux 6.0, which does not count them, and for BPF ring buffers: see [Open].
	Refused   uint64
	Snapshots uint64        // that were taken
	Short     uint64        // of these, those with less than Options.MinAge
	LastTook  time.Duration // the latest one
	Barrier   string        // how it waits
	Plugged   uint64        // CPUs that came online and got rings, or came back
	// ReplacedEntries is the number of map entries that Open took from another reader. That reader
	// receives nothing until it is restarted.
	ReplacedEntries int
	Displaced       perfbuf.DisplacedStats // taken since: see [Recorder.Displaced]
	// Err explains why a CPU that came online has no ring, or how the recorder looks for CPUs
	// without the kernel's uevents. It is nil if all is well. The recorder tries again every
	// second, unless Err wraps a [*perfbuf.MapError]: the map has no entry for that CPU.
	Err error
}

// Stats returns the counts. On Linux 6.0 and newer, it interrupts the CPUs. It does not block.
func (r *Recorder) Stats() Stats {
	if r.gate.Enter() == nil {
		r.count()
		r.gate.Leave()
	}
	r.mu.Lock()
	s := r.stats
	s.Rings = len(r.rings)
	r.mu.Unlock()
	s.Displaced, s.Err = r.Displaced(), r.hotplug.Err()
	s.Barrier, s.ReplacedEntries = r.provider.Name(), r.parts.Replaced()
	engine.ErrorTexts(&s.Err)
	return s
}

// Displaced checks whether other readers have taken the map's entries. No more events arrive from
// the CPUs of taken entries. If it cannot know, it returns the reason: see perfbuf.ErrDisplaced. A
// recorder also checks every 2 seconds and with each snapshot. To record the map again, close the
// recorder and open another. Displaced does not block, and takes about a microsecond per CPU. After
// Close it returns the result of the last check.
func (r *Recorder) Displaced() perfbuf.DisplacedStats {
	d := perfbuf.DisplacedStats(r.parts.Displaced())
	engine.ErrorTexts(&d.Err)
	return d
}
