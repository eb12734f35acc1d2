package perfbuf

import (
	"context"
	"iter"

	"github.com/ringfold/ringfold/internal/stream"
)

// Batch is a run of some tens of events that [Stream.RunBatches] delivers with one call. This is
// the fastest way to read: calling a function for each event may cost more than reading the event.
//
//	err := stream.RunBatches(ctx, func(b *perfbuf.Batch) error {
//		for ev := range b.Events() {
//			total += len(ev.Bytes())
//		}
//		return nil
//	})
//
// A Batch and its events are valid until the function that received it returns. With the build tag
// perfbuf_poison, each Batch holds one event.
type Batch struct {
	pass stream.Pass
	end  bool
}

// endOfPass is the empty Batch that all streams share.
var endOfPass = Batch{end: true}

// End reports whether this is the end of a pass, which [Stream.RunBatches] shows as one more, empty
// Batch. By then tails are stored, [Stream.Watermark] has moved on, and the stream is idle.
func (b *Batch) End() bool { return b.end }

// Events iterates over the events of the batch. A second loop goes on after the last event of the
// first. The compiler turns it into a plain loop, without a call per event. [Decoder.All] reads the
// payloads as structs on the way.
func (b *Batch) Events() iter.Seq[Event] {
	in := &b.pass.Batch
	return func(yield func(Event) bool) {
		for n := in.Taken; n < len(in.List); {
			ev := in.List[n]
			n++
			in.Taken = n
			if !yield(Event{ev}) {
				return
			}
		}
	}
}

// ForEachBatch is [Stream.ForEach] with one call for many events. If f returns nil, the whole batch
// counts as consumed, whether f iterated over it or not. If f returns an error, panics or calls
// runtime.Goexit, the events up to the current one do, at least the first. After a Close f may
// still read its batch to the end. Errors are those of ForEach.
func (s *Stream) ForEachBatch(f func(*Batch) error) error {
	return unlessStopped(s.deliverBatches(context.Background(), s.in.Begin(), f))
}

// RunBatches is [Stream.Run] with one call for many events. [Stream.ForEachBatch] says which events
// count as consumed. After each pass, it calls f with an empty Batch whose [Batch.End] is true,
// unless the pass has ended with an error. Between batches it checks ctx; errors are those of Run.
func (s *Stream) RunBatches(ctx context.Context, f func(*Batch) error) error {
	return s.untilStopped(ctx, func() error {
		if err := s.deliverBatches(ctx, nil, f); err != nil {
			return err
		}
		return stopped(f(&endOfPass))
	})
}
