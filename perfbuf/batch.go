package perfbuf

import (
	"context"
	"iter"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/walk"
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
type Batch struct{ pass walk.Pass }

// Events iterates over the events of the batch. A second loop goes on after the last event of the
// first. The compiler turns it into a plain loop, without a call per event. [Decoder.All] reads the
// payloads as structs on the way.
func (b *Batch) Events() iter.Seq[Event] {
	in := &b.pass.Batch
	return func(yield func(Event) bool) { // it has one yield, or the compiler would not inline it
		s := in.Stretch
		for n := in.Taken; ; {
			var word uint64
			if in.List == nil {
				if s.Pos >= s.Limit {
					return
				}
				var ok bool
				var next uint64
				if word, next, ok = s.View.Sample(s.Pos, s.End); !ok {
					return
				}
				in.Ahead = s.Prefetch(next)
				s.Pos = next
				in.Stretch.Pos, in.Latest = next, word
			} else {
				if n >= len(in.List) {
					return
				}
				s.View, word = in.List[n].View, in.List[n].Word
			}
			n++
			in.Taken = n
			if !yield(Event{raw.Event{View: s.View, Word: word}}) {
				return
			}
		}
	}
}

// ForEachBatch calls f with batches of the events that the rings hold now, without waiting:
// [Reader.ForEach] with one call for many events. If f returns nil, the whole batch counts as
// consumed, whether f iterated over it or not. If f returns an error, panics or calls
// runtime.Goexit, the events up to the current one do, at least the first. After [Reader.Close] f
// may still read its batch to the end. Errors are those of ForEach.
func (r *Reader) ForEachBatch(f func(*Batch) error) error { return forEachBatch(r, f) }

// ForEachBatch is [Ring.ForEach] with one call for many events: see [Reader.ForEachBatch].
func (r *Ring) ForEachBatch(f func(*Batch) error) error { return forEachBatch(r, f) }

// ForEachBatch is [Stream.ForEach] with one call for many events: see [Reader.ForEachBatch].
func (s *Stream) ForEachBatch(f func(*Batch) error) error { return forEachBatch(s, f) }

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

// RunBatches is [Stream.Run] with one call for many events: see [Reader.RunBatches].
func (s *Stream) RunBatches(ctx context.Context, f func(*Batch) error) error {
	return runBatches(ctx, s, f)
}
