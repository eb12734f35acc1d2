package perfbuf

import (
	"context"
	"iter"

	"github.com/ringfold/ringfold/internal/raw"
)

// Batch is a run of events that [Reader.RunBatches] and the like deliver with one call. This is the
// fastest way to read: calling a function for each event may cost more than reading the event.
//
//	err := reader.RunBatches(ctx, func(b *perfbuf.Batch) error {
//		for ev := range b.Events() {
//			total += ev.Len()
//		}
//		return nil
//	})
//
// A Batch and its events are valid until the function that received it returns. With the build tag
// perfbuf_poison, each Batch holds one event.
type Batch struct {
	// Either samples that lie in a row, which are found as they are read, or events that are known
	// already.
	stretch raw.Stretch
	list    []raw.Event

	taken  int    // events that the user has, or has had
	last   uint64 // Word of the latest, of a stretch
	live   bool   // taken is not yet accounted for
	single [1]raw.Event
}

// set makes it a batch of known events.
func (b *Batch) set(list []raw.Event) {
	b.list, b.taken, b.live = list, 0, true
}

// setStretch makes it a batch of the samples of a stretch, which begins with one.
func (b *Batch) setStretch(s raw.Stretch) {
	b.stretch, b.list, b.taken, b.live = s, nil, 0, true
}

// take notes that the user has the sample at the stretch's position, up to next. It is part of each
// loop over events: should the function that is called for one panic, all is accounted for already.
func (b *Batch) take(word, next uint64) {
	b.stretch.Pos, b.last = next, word
	b.taken++
}

// Events iterates over the events of the batch. A second loop goes on after the last event of the
// first. The compiler turns it into a plain loop, without a call per event. [Decoder.All] reads the
// payloads as structs on the way.
func (b *Batch) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) { // it has one yield, or the compiler would not inline it
		s := b.stretch
		for n := b.taken; ; {
			var word uint64
			if b.list == nil {
				if s.Pos >= s.Limit {
					return
				}
				var ok bool
				var next uint64
				if word, next, ok = s.Sample(); !ok {
					return
				}
				s.Pos = next
				b.stretch.Pos, b.last = next, word
			} else {
				if n >= len(b.list) {
					return
				}
				s.View, word = b.list[n].View, b.list[n].Word
			}
			n++
			b.taken = n
			if !yield(Event{raw.Event{View: s.View, Word: word}}) {
				return
			}
		}
	}
}

// finish takes all that is left.
func (b *Batch) finish() {
	if b.list != nil {
		b.taken = len(b.list)
		return
	}
	for b.stretch.Pos < b.stretch.Limit {
		word, next, ok := b.stretch.Sample()
		if !ok {
			return
		}
		b.take(word, next)
	}
}

// settle returns how many events have been taken, one at least: whoever gets a batch has its first
// event. It returns 0 if there is no batch.
func (b *Batch) settle() int {
	if !b.live {
		return 0
	}
	b.live = false
	if b.taken == 0 && b.list != nil {
		b.taken = 1
	} else if b.taken == 0 {
		if word, next, ok := b.stretch.Sample(); ok {
			b.take(word, next)
		}
	}
	return b.taken
}

// ForEachBatch calls f with batches of the events that the rings hold now, without waiting:
// [Reader.ForEach] with one call for many events. If f returns nil, the whole batch counts as
// consumed, whether f iterated over it or not. If f returns an error, panics or calls
// runtime.Goexit, the events up to the current one do, at least the first. After [Reader.Close] f
// may still read its batch to the end. Errors are those of ForEach.
func (r *Reader) ForEachBatch(f func(*Batch) error) error { return forEachBatch(r, f) }

// ForEachBatch is [Ring.ForEach] with one call for many events: see [Reader.ForEachBatch].
func (r *Ring) ForEachBatch(f func(*Batch) error) error { return forEachBatch(r, f) }

// ForEachBatch is [Ordered.ForEach] with one call for many events: see [Reader.ForEachBatch].
func (s *Ordered) ForEachBatch(f func(*Batch) error) error { return forEachBatch(s, f) }

// RunBatches calls f with batches of events as they come, and blocks in between: [Reader.Run] with
// one call for many events. [Reader.ForEachBatch] says which events count as consumed. Between
// batches it checks ctx; errors are those of Run.
func (r *Reader) RunBatches(ctx context.Context, f func(*Batch) error) error {
	return runBatches(ctx, r, f)
}

// RunBatches is [Ring.Run] with one call for many events: see [Reader.RunBatches].
func (r *Ring) RunBatches(ctx context.Context, f func(*Batch) error) error {
	return runBatches(ctx, r, f)
}

// RunBatches is [Ordered.Run] with one call for many events: see [Reader.RunBatches].
func (s *Ordered) RunBatches(ctx context.Context, f func(*Batch) error) error {
	return runBatches(ctx, s, f)
}
