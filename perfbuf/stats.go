package perfbuf

import (
	"time"

	"github.com/ringfold/ringfold/internal/engine"
)

// Stats are a [Reader]'s counters since Open. They are updated at the end of each pass, and now and
// then within a long one. encoding/json writes their errors as texts.
type Stats struct {
	Rings []RingStats // by CPU

	// Wakes counts the times the kernel woke a Wait. A merged stream counts it for the reader of
	// the event.
	Wakes         uint64
	SpuriousWakes uint64 // of these, with nothing to read; the first after a pause does not count
	TimerWakes    uint64 // times a Wait returned because a poll found events
	Doorbell      DoorbellStats
	Passes        uint64 // passes over all rings, rounds of an ordered stream included

	Hotplug HotplugStats
	Outputs OutputStats // of LanesFD in the options
	// ReplacedEntries is how many entries of the map held another reader's perf events when Open
	// stored its own. An entry holds one event, so that reader receives nothing from then on. With
	// BPF_F_PRESERVE_ELEMS, they may be the events of a reader that is gone.
	ReplacedEntries int
	Displaced       DisplacedStats // what other readers have taken from this one since

	// CloseErr says why Close left a ring of this reader in the map: the process has dropped
	// privileges since Open, or the map is frozen (BPF_MAP_FREEZE). It is nil if Close took all
	// out. Outputs on a CPU that was left fail with EOPNOTSUPP, not ENOENT, until another reader
	// takes the entry.
	CloseErr error

	// Of ordered streams.
	Late uint64 // events marked as such: see Event.Late
	// MaxLateness is how far an event was below the least time that would not have been late, at
	// most.
	MaxLateness time.Duration
	Inversions  uint64 // samples that lay in their ring behind one with a later time
	// Untimed counts samples without a believable time in their payload: see PayloadTime.
	Untimed      uint64
	SpilledBytes uint64 // copied out of rings that filled up
	// SpillUsed is how many bytes of memory hold such copies now, as of the latest pass or look.
	SpillUsed    uint64
	SpillRefused uint64       // times that the budget for copies was used up
	Barrier      BarrierStats // of the latest stream in exact mode
}

// DisplacedStats says whether another reader has taken the map's entries from this one: see
// [ErrDisplaced]. It is as of the latest look, at most about 2 seconds ago, and final after Close.
type DisplacedStats struct {
	Entries int // entries that others have replaced or emptied
	// OwnedUntil is when all entries were last seen to be this reader's, in ns of CLOCK_MONOTONIC.
	// Once they are not, it stays: no events are missing up to then. It is 0 if nobody can know.
	OwnedUntil uint64
	// Err says why nobody can know, and Entries may be too low: of BPF ring buffers always; of perf
	// event arrays before Linux 5.10, without BTF (CONFIG_DEBUG_INFO_BTF), in lockdown for
	// confidentiality, and after the process has dropped CAP_BPF.
	Err error
}

// DoorbellStats describes the default wakeup policy at work: see [Wakeup].
type DoorbellStats struct {
	Arms    uint64 // times a quiet ring was armed: its next events wake the reader
	Disarms uint64 // times a busy ring was disarmed
	Armed   int    // rings that are armed now
	Polls   uint64 // polls by the timer
	// Err says why there is no doorbell though the options ask for one, or why a ring could not be
	// armed or disarmed, for example after the process dropped privileges. The reader then polls.
	Err error
}

// BarrierStats describes the barriers of an exact stream: see [Barriers]. Durations are those of
// barriers that succeeded.
type BarrierStats struct {
	Provider string // how barriers wait, as a name of [Barriers]; empty without exact mode
	Refused  error  // why the others are not used: a line for each
	// Cost of one wait: the least of a few, measured by the first stream of the process. It is 0
	// for Membarrier, which is not measured.
	Cost     time.Duration
	Count    uint64        // barriers that succeeded
	Failed   uint64        // barriers that failed
	P50, P99 time.Duration // within 7 %
	Max      time.Duration
	Last     time.Duration
	// Stalled is the age of the present barrier, or 0 if that is less than a second. While a
	// program or a virtual CPU stalls it, the stream delivers nothing.
	Stalled time.Duration
	Err     error // of the latest barrier that failed
}

// RingStats are the counters of one ring. After Close, Samples + Dropped + Lost is the number of
// outputs that the ring took or had no room for. It is exact if the kernel is 6.0 or newer or
// programs count their outputs (Options.LanesFD), no memory was corrupt, and running programs
// ended within a second of Close. Events left in a BPF ring buffer are not among them: the next
// reader gets these.
type RingStats struct {
	CPU       int
	Size      int    // data bytes
	Used      int    // bytes not given back to the kernel at this moment
	HighWater int    // the greatest Used that a pass has found
	Samples   uint64 // samples delivered
	// Dropped counts samples not delivered: late ones with StreamOptions.DropLate, and those left
	// at Close in a perf ring.
	Dropped uint64
	Bytes   uint64 // bytes given back to the kernel, of records of all kinds
	// Lost counts outputs known to have failed because the ring was full. After Close these are all
	// of them, on Linux 6.0 or with Options.LanesFD.
	Lost        uint64
	LostRecords uint64 // the kernel's reports of such losses
	Shed        uint64 // outputs that events of KindShed have counted
	Unknown     uint64 // records of other types, skipped
	// Discarded counts skipped records of a BPF ring buffer that programs gave up
	// (bpf_ringbuf_discard).
	Discarded  uint64
	Shared     uint64 // times that this reader noticed another one reading its BPF ring buffer
	Corrupt    uint64 // stretches of memory that could not be read, skipped
	TailStores uint64 // stores of data_tail
	Armed      bool   // its next output wakes the reader: see DoorbellStats
}

// Total sums the rings up. CPU, Size, Used and HighWater are those of the ring with the highest
// HighWater/Size. Armed is not summed up: Doorbell.Armed is.
func (s Stats) Total() RingStats {
	var t RingStats
	for i, r := range s.Rings {
		if i == 0 || r.HighWater*t.Size > t.HighWater*r.Size {
			t.CPU, t.Size, t.Used, t.HighWater = r.CPU, r.Size, r.Used, r.HighWater
		}
		t.Samples += r.Samples
		t.Dropped += r.Dropped
		t.Bytes += r.Bytes
		t.Lost += r.Lost
		t.LostRecords += r.LostRecords
		t.Shed += r.Shed
		t.Unknown += r.Unknown
		t.Discarded += r.Discarded
		t.Shared += r.Shared
		t.Corrupt += r.Corrupt
		t.TailStores += r.TailStores
	}
	return t
}

func (r *Ring) stats(used int) RingStats {
	in := r.in()
	c := &in.Counts
	return RingStats{
		CPU: r.CPU(), Size: r.Size(), Used: used,
		HighWater: int(c.HighWater.Load()), Samples: c.Samples.Load(), Dropped: c.Dropped.Load(), Bytes: c.Bytes.Load(),
		Lost: in.Raw.Losses.Known.Load(), LostRecords: c.LostRecords.Load(), Shed: c.Shed.Load(), Unknown: c.Unknown.Load(), Discarded: c.Discarded.Load(),
		Shared: c.Shared.Load(), Corrupt: c.Corrupt.Load(), TailStores: c.TailStores.Load(),
	}
}

// Stats returns the counters. It never blocks, may be called from anywhere at any time, and still
// answers after Close.
func (r *Reader) Stats() Stats {
	wakes := r.in.Waits()
	s := Stats{
		Wakes: wakes.Wakes, SpuriousWakes: wakes.Spurious, TimerWakes: wakes.Timer,
		Passes: r.in.Rings.Passes.Load(),
	}
	o := &r.in.Counts
	s.Late, s.MaxLateness = o.Late.Load(), time.Duration(o.MaxLateness.Load())
	s.Inversions, s.Untimed = o.Inversions.Load(), o.Untimed.Load()
	s.SpilledBytes, s.SpillUsed, s.SpillRefused = o.Spilled.Load(), o.SpillUsed.Load(), o.SpillRefused.Load()
	s.Doorbell = DoorbellStats{Polls: wakes.Polls, Err: r.in.Entries.Err()}
	s.Doorbell.Arms, s.Doorbell.Disarms = r.in.Entries.Counts()
	s.Hotplug.Reopened, s.Hotplug.Added = r.in.Hotplug.Counts()
	s.Hotplug.Err = r.in.Hotplug.Err()
	s.Displaced, s.Outputs = DisplacedStats(r.in.Displaced()), outputStats(r.in.Parts.Outputs())
	if entries := r.in.Parts.Entries; entries != nil {
		s.ReplacedEntries = entries.Replaced()
	}
	if err := r.in.Unhooking.Load(); err != nil {
		s.CloseErr = *err
	}
	if b := r.in.Barrier.Load(); b != nil {
		s.Barrier = BarrierStats(b.Stats())
	}
	engine.ErrorTexts(&s.CloseErr, &s.Displaced.Err, &s.Doorbell.Err, &s.Hotplug.Err, &s.Outputs.Err, &s.Barrier.Err, &s.Barrier.Refused)
	for _, ring := range r.Rings() {
		one := ring.stats(ring.Used())
		if one.Armed = r.in.Entries.Armed(ring.index); one.Armed {
			s.Doorbell.Armed++
		}
		s.Rings = append(s.Rings, one)
	}
	return s
}

// HotplugStats counts CPUs that came online after Open.
type HotplugStats struct {
	// CPUs that came back: their rings got new perf events, as the kernel closes those of an
	// offline CPU
	Reopened uint64
	Added    uint64 // CPUs that came for the first time, and got rings
	// Err says why the reader could not follow the latest change, or why it reads the list of CPUs
	// twice a second instead of listening to the kernel's announcements; it is nil if all is well.
	// The reader tries again every second, unless Err wraps a [*MapError]: the map has no entry
	// for that CPU.
	Err error
}
