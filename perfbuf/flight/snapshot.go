package flight

import (
	"iter"
	"math"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/overwrite"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/perfbuf"
)

// Snapshot is what the rings held when it was taken. It is a copy, which does not change. Several goroutines may read it at the same time.
type Snapshot struct {
	recorder      *Recorder
	copies        []*overwrite.Copy
	rings         []Ring
	since, until  uint64
	events, bytes int
	released      atomic.Bool
}

// Ring is what a snapshot has of one CPU.
type Ring struct {
	CPU    int
	Since  uint64 // every event of this CPU from this time up to Snapshot.Until was in its ring, in ns of CLOCK_MONOTONIC
	Bytes  int    // of records in its ring
	Events int    // in the snapshot
	// Err is a *perfbuf.CorruptError if the ring's older events could not be read, because a program had output
	// too much at once. Its Offset counts from the newest event towards older ones.
	Err error
}

// index finds the events up to t0, of which all up to until are there.
func (s *Snapshot) index(t0, until uint64) {
	s.until = until
	for _, c := range s.copies {
		c.Index(t0)
		s.since = max(s.since, c.Since)
	}
	opts := &s.recorder.opts
	s.since = min(s.since, until+1)
	if opts.MinAge > 0 && uint64(opts.MinAge) <= until {
		s.since = max(s.since, until+1-uint64(opts.MinAge))
	}
	from := s.since
	if opts.Partial {
		from = 0
	}
	for _, c := range s.copies {
		ring := Ring{CPU: c.Live().CPU(), Since: min(c.Since, until+1), Bytes: int(c.Bytes())}
		if c.Fault != raw.FaultNone {
			ring.Err = &perfbuf.CorruptError{CPU: ring.CPU, Offset: c.Off, Skipped: c.Bytes() - c.Off, Reason: c.Fault.String()}
		}
		c.Keep(from)
		ring.Events = c.Len()
		s.events += c.Len()
		s.bytes += ring.Bytes
		s.rings = append(s.rings, ring)
	}
}

// CompleteSince is the time, in ns of CLOCK_MONOTONIC, from which on the snapshot has every event of every CPU, up to [Snapshot.Until]. It is
// what the fullest ring has left, or where Options.MinAge begins, or when recording began; Until plus 1 if there is no such time. With
// Options.Partial there are earlier events too, of which those of other CPUs may be missing: [perfbuf.Event.Time] says which these are.
//
// After [perfbuf.KindLost], an output is missing that was refused, while the rings were paused.
func (s *Snapshot) CompleteSince() uint64 { return s.since }

// Until is the time up to which the snapshot has every event, in ns of CLOCK_MONOTONIC: the time of the call
// of [Recorder.Snapshot]. No event is later, unless another reader has taken entries of the map: then Until
// is when all of them were last seen to be the Recorder's, some 2 seconds before that or less. Events that are
// later are those that its rings still got; others are missing. With a perfbuf.PayloadTime, so may
// be one whose program took its time before Until and output it afterwards.
func (s *Snapshot) Until() uint64 { return s.until }

// Age is how much time lies between [Snapshot.CompleteSince] and [Snapshot.Until]. Below Options.MinAge, the rings were too small for that, or had
// not recorded for so long.
func (s *Snapshot) Age() time.Duration {
	return time.Duration(min(s.until+1-s.since, math.MaxInt64))
}

// Len is how many events there are, losses included.
func (s *Snapshot) Len() int { return s.events }

// Rings returns what the snapshot has of each CPU, in the order in which they got rings.
func (s *Snapshot) Rings() []Ring { return s.rings }

// Events iterates over the events in order of time, in place: an event, and the slices that it
// returns, are valid until the loop's body ends. It does not block. It is empty after
// [Snapshot.Release], which must not be called meanwhile.
func (s *Snapshot) Events() iter.Seq[perfbuf.Event] {
	if s.released.Load() {
		return func(func(perfbuf.Event) bool) {}
	}
	return kernel.Face.Events(overwrite.Events(s.copies)).(iter.Seq[perfbuf.Event])
}

// Records iterates over copies of the events, which may be kept. Otherwise it is [Snapshot.Events].
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
		s.recorder.release(s.copies)
		s.copies = nil
	}
}
