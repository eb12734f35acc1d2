package flight

import (
	"iter"
	"math"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/perfbuf"
)

// Snapshot is a copy of the rings as of one moment. It does not change, and several goroutines may
// read it at the same time.
type Snapshot struct {
	release      func() // gives the copies back
	copies       []*ringCopy
	rings        []Ring
	since, until uint64
	events       int
	partial      bool // Options.Partial
	released     atomic.Bool
}

// Ring describes one ring's part of a snapshot.
type Ring struct {
	CPU int // of a BPF ring buffer: its index in an array, or else -1
	// Since is a time in ns of CLOCK_MONOTONIC. The ring had every event of this CPU, or output to
	// this ring buffer, from then up to Snapshot.Until.
	Since  uint64
	Bytes  int // of records in its ring
	Events int // in the snapshot
	// Err is a *perfbuf.CorruptError if an oversized output made the ring's older events
	// unreadable. Its Offset counts from the newest event towards older ones.
	Err error
}

// index finds the events up to t0. Of these, the ones up to until are complete.
func (s *Snapshot) index(t0, until uint64, opts Options) {
	s.until = until
	for _, c := range s.copies {
		c.index(t0)
		s.since = max(s.since, c.since)
	}
	s.since = min(s.since, until+1)
	if opts.MinAge > 0 && uint64(opts.MinAge) <= until {
		s.since = max(s.since, until+1-uint64(opts.MinAge))
	}
	s.partial = opts.Partial
	for _, c := range s.copies {
		ring := Ring{CPU: c.live.CPU(), Since: min(c.since, until+1), Bytes: int(c.bytes - c.skip)}
		if c.fault != raw.FaultNone {
			ring.Err = &perfbuf.CorruptError{CPU: ring.CPU, Offset: c.off, Skipped: c.bytes - c.off, Reason: c.fault.String()}
		}
		c.keep(s.from(s.since))
		ring.Events = len(c.places)
		s.events += len(c.places)
		s.rings = append(s.rings, ring)
	}
}

// from is the time of the first event to keep.
func (s *Snapshot) from(since uint64) uint64 {
	if s.partial {
		return 0
	}
	return since
}

// CompleteSince is the time, in ns of CLOCK_MONOTONIC, from which the snapshot has every event of
// every CPU, up to [Snapshot.Until]. It is the oldest time left in the fullest ring, or the start
// of Options.MinAge, or of recording, which for BPF ring buffers is 0. It is Until plus 1 if there
// is no such time. With Options.Partial there are earlier events too, and events of other CPUs may
// be missing among them: compare [perfbuf.Event.Time].
//
// A [perfbuf.KindLost] counts missing outputs, which the kernel refused while the rings were
// paused.
func (s *Snapshot) CompleteSince() uint64 { return s.since }

// Until is the time up to which the snapshot has every event, in ns of CLOCK_MONOTONIC: the time of
// the call of [Recorder.Snapshot]. No event is later, unless another reader has taken entries of
// the map. Then Until is the time of the last check that saw all entries to be the Recorder's, at
// most some 2 seconds earlier. Later events in the snapshot come from the rings that still received
// outputs; others are missing. With a perfbuf.PayloadTime, an event may be missing whose program
// took its time before Until and output it afterwards.
func (s *Snapshot) Until() uint64 { return s.until }

// Age is the time from [Snapshot.CompleteSince] to [Snapshot.Until]. It is below Options.MinAge if
// the rings were too small, or had not recorded for so long.
func (s *Snapshot) Age() time.Duration {
	return time.Duration(min(s.until+1-s.since, math.MaxInt64))
}

// Len is the number of events, losses included.
func (s *Snapshot) Len() int { return s.events }

// Rings describes each CPU's part of the snapshot, in the order in which the CPUs got rings.
func (s *Snapshot) Rings() []Ring { return s.rings }

// Events iterates over the events in order of time, in place: an event, and the slices that it
// returns, are valid until the loop's body ends. It does not block. It is empty after
// [Snapshot.Release], which must not be called meanwhile.
func (s *Snapshot) Events() iter.Seq[perfbuf.Event] {
	if s.released.Load() {
		return func(func(perfbuf.Event) bool) {}
	}
	return func(yield func(perfbuf.Event) bool) {
		inOrder(s.copies)(func(ev raw.Event) bool { return yield(perfbuf.EventOf(ev)) })
	}
}

// Records iterates over copies of the events, which you may keep. Otherwise it is
// [Snapshot.Events].
func (s *Snapshot) Records() iter.Seq[perfbuf.Record] {
	return func(yield func(perfbuf.Record) bool) {
		for ev := range s.Events() {
			if !yield(ev.Record()) {
				return
			}
		}
	}
}

// Release gives the snapshot's memory back to the recorder, for the next one. Without it, Go's
// garbage collector frees it. Further calls do nothing.
func (s *Snapshot) Release() {
	if !s.released.Swap(true) {
		s.release()
		s.copies = nil
	}
}
