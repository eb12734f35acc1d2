package order

import (
	"slices"
	"time"

	"github.com/ringfold/ringfold/internal/walk"
)

// Source is a reader whose rings a stream orders. They are claimed for the stream, and those that come later are too.
type Source struct {
	Name   string                                // of its map, for errors
	Rings  *walk.Rings                           // they and their Counts say what becomes of events
	Lost   func(ring int) (n uint64, known bool) // outputs to a ring that have failed so far, by the kernel's count
	Counts *Counts
	Wakeup Wakeup
	// Stamped says that the events' times were taken after their records were reserved, in a BPF ring buffer: the source is complete
	// up to the load of its heads, but for busy records, without a barrier.
	Stamped bool

	stream *Stream
	taken  []*ring // by the stream, as Rings has them
	times  times
}

// Wakeup is the wakeup policy of a reader.
type Wakeup struct {
	Poll   time.Duration // between looks at what has woken nobody; 0: none
	Enough uint64        // so many bytes in one ring are not waited for
	// Armed reports whether the next output to any ring wakes the reader. It is nil without a doorbell.
	Armed func() bool
}

// ring is what a stream knows of one.
type ring struct {
	*walk.Ring
	source *Source
	index  int    // among the source's
	at     int    // among the stream's
	head   uint64 // as last loaded
	before uint64 // as loaded the time before that
	losses lossWatch
	found  uint64 // samples that have been delivered and not counted, or are held
	tally  walk.Tally
}

// Add takes in a source's rings, from their published tails on. No round may be under way.
func (s *Stream) Add(src *Source) {
	if s.opts.FlushEvery > 0 && s.flushAt == 0 {
		s.startInterval(s.opts.Now())
	}
	src.stream = s
	s.sources = append(s.sources, src)
	s.adoptFrom(src)
}

// Remove lets a source go. It gives up what is held of it, counted as dropped, and stores its tails behind that. What lies behind a busy
// record stays in its ring, and comes again to whoever reads that next. No round may be under way.
func (s *Stream) Remove(src *Source) {
	defer func(yield func() bool) { s.opts.Yield = yield }(s.opts.Yield)
	s.opts.Yield = nil // the caller holds a lock, for which all others of a simulation would wait
	for _, r := range slices.Backward(src.taken) {
		r.found = 0 // they are not delivered
		r.Counts.Dropped.Add(s.merger.Remove(r.at))
		s.rings = slices.Delete(s.rings, r.at, r.at+1)
		for i, behind := range s.rings[r.at:] {
			behind.at = r.at + i
		}
	}
	src.taken = nil
	s.sources = slices.DeleteFunc(s.sources, func(other *Source) bool { return other == src })
	src.Counts.SpillUsed.Store(0)
}

// Scanned is the offset up to which the i-th ring's records have been seen.
func (s *Stream) Scanned(i int) uint64 { return s.merger.Scanned(i) }

// adopt takes in the rings of CPUs that have come online since. A round must not be under way.
func (s *Stream) adopt() {
	s.yield()
	for _, src := range s.sources {
		s.adoptFrom(src)
	}
}

func (s *Stream) adoptFrom(src *Source) {
	for i := len(src.taken); i < src.Rings.Len(); i++ {
		r := &ring{Ring: src.Rings.At(i), source: src, index: i, at: len(s.rings)}
		s.merger.Add(r.Raw)
		r.head = s.merger.Freed(r.at)
		r.before, r.losses.account = r.head, &r.Raw.Losses
		s.rings, src.taken = append(s.rings, r), append(src.taken, r)
	}
}

// What follows is how package wake sees the rings of a source of which a stream reads ahead of the tails.

// Len is how many rings there are.
func (src *Source) Len() int { return src.Rings.Len() }

// Head is how far the kernel has got in a ring.
func (src *Source) Head(ring int) uint64 { return src.Rings.Head(ring) }

// Unread is how many bytes of a ring the stream has not seen, or not seen committed.
func (src *Source) Unread(ring int) uint64 {
	if ring >= len(src.taken) {
		return src.Rings.Unread(ring) // it is new, and the stream's next scan takes it in
	}
	m, at := src.stream.merger, src.taken[ring].at
	if ahead := m.Ahead(at, src.Rings.Head(ring)); ahead > 0 {
		return ahead
	}
	return m.Committed(at)
}

// Flushing reports whether there is a flush that no Step has taken into account, or the sources are to be changed.
func (src *Source) Flushing() bool {
	s := src.stream
	return src.Rings.Failures.Overlooked() || s.Flushes.Overlooked() || s.opts.Changed.Load()
}

// Closed reports whether the stream is closed, or one of its sources.
func (src *Source) Closed() bool { return src.stream.opts.Halt.Load() }
