package perfbuf

import (
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
