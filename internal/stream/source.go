package stream

import (
	"slices"
	"time"
)

// Source is a reader whose rings a stream orders. The stream has claimed them, and claims later
// ones too.
type Source struct {
	Name   string                                // name of the map, for errors
	Rings  *Rings                                // the rings, whose Counts account for events
	Lost   func(ring int) (n uint64, known bool) // the kernel's count of failed outputs to a ring
	Counts *ReaderCounts
	Wakeup Wakeup
	// Stamped means that programs take the events' times after they reserve the records, in a BPF
	// ring buffer. The source is then complete up to the load of its heads without a barrier,
	// except for busy records.
	Stamped bool

	stream *Ordered
	taken  []*ring // adopted by the stream, in the order of Rings
	times  payloadTimes
}

// Wakeup is the wakeup policy of a reader.
type Wakeup struct {
	Poll   time.Duration // time between polls for events that caused no wakeup; 0: none
	Enough uint64        // a ring with so many unread bytes ends the wait
	// Armed reports whether the next output to any ring wakes the reader. It is nil without a
	// doorbell.
	Armed func() bool
}

// Add adds a source's rings, from their published tails on. No round may be under way.
func (s *Ordered) Add(src *Source) {
	if s.opts.FlushEvery > 0 && s.flushAt == 0 {
		s.startInterval(s.opts.Now())
	}
	src.stream = s
	s.sources = append(s.sources, src)
	s.adoptFrom(src)
}

// Remove removes a source. It drops and counts the source's held events, and stores the tails
// behind them. Records behind a busy one stay in the ring for its next reader. No round may be
// under way.
func (s *Ordered) Remove(src *Source) {
	defer func(yield func() bool) { s.opts.Yield = yield }(s.opts.Yield)
	s.opts.Yield = nil // the caller holds a lock that all others in a simulation would wait for
	for _, r := range slices.Backward(src.taken) {
		r.found = 0 // they are not delivered
		r.Counts.Dropped.Add(s.merger.remove(r.at))
	}
	src.taken = nil
	s.sources = slices.DeleteFunc(s.sources, func(other *Source) bool { return other == src })
	src.Counts.SpillUsed.Store(0)
}

// Scanned returns the offset up to which the stream has seen the i-th ring's records.
func (s *Ordered) Scanned(i int) uint64 { return s.merger.rings[i].scan }

// adopt adds the rings of CPUs that have come online since. No round may be under way.
func (s *Ordered) adopt() {
	s.yield()
	for _, src := range s.sources {
		s.adoptFrom(src)
	}
}

func (s *Ordered) adoptFrom(src *Source) {
	for i := len(src.taken); i < src.Rings.Len(); i++ {
		r := s.merger.add(src.Rings.At(i))
		r.source, r.losses.account = src, &r.Raw.Losses
		src.taken = append(src.taken, r)
	}
}

// The methods below are package engine's view of a source, whose stream reads ahead of the tails.

// Unread returns how many bytes of a ring the stream has not seen, or not seen committed.
func (src *Source) Unread(ring int) uint64 {
	if ring >= len(src.taken) {
		return src.Rings.Unread(ring) // a new ring: the stream's next scan adopts it
	}
	r := src.taken[ring]
	if ahead := r.ahead(r.Raw.Head()); ahead > 0 {
		return ahead
	}
	return r.committed()
}

// Flushing reports whether there is a flush that no Step has seen, or the sources are about to
// change.
func (src *Source) Flushing() bool {
	s := src.stream
	return src.Rings.failures.overlooked() || s.Flushes.overlooked() || s.opts.Changed.Load()
}
