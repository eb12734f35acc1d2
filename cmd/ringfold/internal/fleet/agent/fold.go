package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/perfbuf"
	"google.golang.org/protobuf/proto"
)

// A batch is closed when it has as much.
const (
	mostEvents = 1000
	mostBytes  = 128 << 10
)

// folder folds an exact stream into batches. It never waits for whoever takes them.
type folder struct {
	Options
	queue *queue
	since uint64 // the watermark of the last batch that was taken

	events []*wire.Event // of the open batch, and behind them others to use again
	times  []uint64      // of those in the batch
	bytes  int
	opened time.Time
	last   uint64 // the time of the latest event: exact streams never go back

	gaps     map[wire.Gap_Reason]*gap // what the next batch has to say
	clock    clock.Reading
	measured time.Time

	read uint64
	lost map[wire.Gap_Reason]uint64
}

// gap is events that are missing, until a batch says so.
type gap struct {
	count, after uint64
	until        uint64
}

func newFolder(o Options, q *queue) *folder {
	return &folder{Options: o, queue: q, gaps: map[wire.Gap_Reason]*gap{}, lost: map[wire.Gap_Reason]uint64{}}
}

// begin is told when the source began.
func (f *folder) begin(now uint64) { f.since = now }

// follow reads until ctx is done. The stream flushes itself: see event.
func (f *folder) follow(ctx context.Context, stream *perfbuf.Stream) error {
	for ctx.Err() == nil {
		if err := f.wait(ctx, stream); err != nil {
			return err
		}
		if err := stream.ForEach(f.event); err != nil {
			return err
		}
		if len(f.times) > 0 && time.Since(f.opened) >= f.BatchDelay {
			f.close(0, false)
		}
	}
	return nil
}

// wait returns when there is something to do.
func (f *folder) wait(ctx context.Context, stream *perfbuf.Stream) error {
	due, cancel := ctx, context.CancelFunc(func() {})
	if len(f.times) > 0 {
		due, cancel = context.WithDeadline(ctx, f.opened.Add(f.BatchDelay))
	}
	defer cancel()
	err := stream.Wait(due)
	switch {
	case err == nil || due.Err() != nil:
		return nil
	case errors.Is(err, perfbuf.ErrBarriers): // nothing is lost, and the kernel may recover
		f.Note(err.Error())
		return nil
	}
	return err
}

// event takes an event of the stream.
func (f *folder) event(ev perfbuf.Event) error {
	switch ev.Kind() {
	case perfbuf.KindFlushed:
		// An exact stream proves that nothing is missing up to the marker's time.
		if len(f.times) == 0 {
			f.measured = time.Time{} // heartbeats have the clock anew
		}
		f.close(ev.Time(), false)
		return nil
	case perfbuf.KindLost:
		f.lost[wire.Gap_RING_FULL] += ev.Lost()
		f.addGap(wire.Gap_RING_FULL, ev.Time(), ev.Lost(), ev.LostAfter())
	case perfbuf.KindCorrupt:
		f.Note(ev.Err().Error())
		f.lost[wire.Gap_CORRUPT]++
		f.addGap(wire.Gap_CORRUPT, ev.Time(), 0, 0)
	default:
		e := f.room()
		if err := f.Source.Decode(ev, e); err != nil {
			if errors.Is(err, source.ErrSkip) {
				return nil
			}
			return err
		}
		f.read++
		f.add(e, ev.Time())
	}
	if len(f.times) >= mostEvents || f.bytes >= mostBytes {
		f.close(0, false)
	}
	return nil
}

// room returns an event to fill in.
func (f *folder) room() *wire.Event {
	if len(f.times) == len(f.events) {
		f.events = append(f.events, new(wire.Event))
	}
	e := f.events[len(f.times)]
	e.Reset()
	return e
}

func (f *folder) addGap(reason wire.Gap_Reason, time, count, after uint64) {
	e := f.room()
	e.Kind, e.Gap = wire.Event_GAP, &wire.Gap{Reason: reason, Count: count, After: min(after, time)}
	f.add(e, time)
}

// add adds what is in the room.
func (f *folder) add(e *wire.Event, t uint64) {
	if len(f.times) == 0 {
		f.opened = time.Now()
		f.bytes = 0
	}
	f.last = max(f.last, t)
	f.times = append(f.times, f.last)
	f.bytes += proto.Size(e) + 16 // its head and its delta
}

// close makes a batch of what there is, and hands it over. It proves the watermark, or the time of its last event if that is later.
// Without room in the spool its events are lost, and the next batch says so.
func (f *folder) close(watermark uint64, end bool) {
	now := time.Now()
	if now.Sub(f.measured) >= 10*time.Second {
		f.clock, f.measured = f.Clock(), now
	}
	b := &wire.Batch{
		Host: f.Host, BootId: f.BootID, Since: f.since, Watermark: max(watermark, f.last, f.since),
		WallOffset: f.clock.Offset, WallError: f.clock.Error, End: end,
	}
	events, times := f.withGaps()
	if b.BaseTime = b.Watermark; len(times) > 0 {
		b.BaseTime = times[0]
	}
	for i, e := range events {
		e.Delta = times[i] - b.BaseTime
	}
	b.Events = events
	data, err := wire.Marshal(b)
	if err != nil {
		panic(fmt.Sprintf("a batch of our own: %v", err)) // all of it was made here, within its bounds
	}
	full := len(f.times) == 0 && end // the last one has room in any case, without events
	if f.queue.push(data, full) {
		f.since = b.Watermark
		clear(f.gaps)
		f.times = f.times[:0]
		return
	}
	f.lose()
	if end {
		f.close(watermark, end)
	}
}

// withGaps returns the events of the batch, those gaps first that the batches before it could not tell.
func (f *folder) withGaps() (events []*wire.Event, times []uint64) {
	for reason, g := range f.gaps {
		at := g.until
		if len(f.times) > 0 {
			at = min(at, f.times[0])
		}
		times = append(times, at)
		events = append(events, &wire.Event{Kind: wire.Event_GAP, Gap: &wire.Gap{Reason: reason, Count: g.count, After: min(g.after, at)}})
	}
	// By the end, and what ends at the same time by the reason, so that it is the same each time.
	slices.Sort(times)
	slices.SortFunc(events, func(a, b *wire.Event) int {
		x, y := f.gaps[a.Gap.Reason], f.gaps[b.Gap.Reason]
		if x.until != y.until {
			return int(int64(x.until - y.until))
		}
		return int(a.Gap.Reason - b.Gap.Reason)
	})
	return append(events, f.events[:len(f.times)]...), append(times, f.times...)
}

// lose gives up the events of the batch.
func (f *folder) lose() {
	for i, e := range f.events[:len(f.times)] {
		if e.Gap != nil {
			f.missing(e.Gap.Reason, e.Gap.Count, e.Gap.After, f.times[i])
			continue
		}
		f.missing(wire.Gap_SPOOL_FULL, 1, f.times[i], f.times[i])
		f.lost[wire.Gap_SPOOL_FULL]++
	}
	f.times = f.times[:0]
}

func (f *folder) missing(reason wire.Gap_Reason, count, after, until uint64) {
	if g := f.gaps[reason]; g != nil {
		g.count, g.after, g.until = g.count+count, min(g.after, after), max(g.until, until)
		return
	}
	f.gaps[reason] = &gap{count, after, until}
}
