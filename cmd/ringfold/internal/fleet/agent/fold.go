package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"google.golang.org/protobuf/proto"
)

// A batch is closed when it has as much.
const (
	mostEvents = 1000
	mostBytes  = 128 << 10
)

// patience is far more than programs take to end that were running when they were detached.
const patience = 30 * time.Second

// folder folds an exact stream into batches. It never waits for the disk or the broker.
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

	decoded uint64
	lost    map[wire.Gap_Reason]uint64
}

// gap is events that are missing, until a batch says so.
type gap struct {
	count, after uint64
	until        uint64
}

func newFolder(o Options, q *queue) *folder {
	return &folder{Options: o, queue: q, gaps: map[wire.Gap_Reason]*gap{}, lost: map[wire.Gap_Reason]uint64{}}
}

// read reads the stream from its beginning to its end.
func (f *folder) read(ctx context.Context, stream *perfbuf.Stream) (err error) {
	if err := f.Source.Attach(); err != nil {
		return err
	}
	f.since = f.Source.Since()
	watermark, drained := uint64(0), false
	defer func() { f.close(watermark, drained) }()
	if err := f.follow(ctx, stream); err != nil {
		return err
	}
	detached := perfbuf.Now() // what happens from now on may be missed
	if err := f.Source.Detach(); err != nil {
		return err
	}
	// Not with ctx, which is done.
	drain, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("programs still run %v after they were detached", patience))
	defer cancel()
	if err := stream.Drain(drain, f.event); err != nil {
		return err
	}
	watermark, drained = detached, true
	return nil
}

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
		if ev.Time() < f.Source.Since() {
			return nil // no loss: nothing of that time is promised
		}
		e := f.room()
		if err := decode(ev, e); err != nil {
			return err
		}
		f.decoded++
		f.add(e, ev.Time())
	}
	if len(f.times) >= mostEvents || f.bytes >= mostBytes {
		f.close(0, false)
	}
	return nil
}

// decode copies a sample of lifecycle's, except its time. The numbers of kinds are the same there and on the wire.
func decode(ev perfbuf.Event, e *wire.Event) error {
	p, err := lifecycle.Decode(ev)
	if err != nil {
		return err
	}
	if p.Kind < lifecycle.Fork || p.Kind > lifecycle.Exit {
		return fmt.Errorf("an event is of the unknown kind %d: lifecycle.bpf.o and event.go do not fit together", p.Kind)
	}
	e.Kind = wire.Event_Kind(p.Kind)
	e.Cpu = uint32(ev.CPU())
	e.Pid, e.Tid, e.OtherPid, e.OtherTid, e.Code = p.PID, p.TID, p.ChildPID, p.ChildTID, p.Code
	// Names may hold any bytes, and messages only UTF-8.
	e.Comm, e.Detail = strings.ToValidUTF8(p.Comm(), "�"), strings.ToValidUTF8(p.File(), "�")
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

// withGaps returns the events of the batch, after the gaps that earlier batches had no room to report. Gaps come by their end, then by
// reason, so that a batch is always the same.
func (f *folder) withGaps() (events []*wire.Event, times []uint64) {
	for _, reason := range slices.SortedFunc(maps.Keys(f.gaps), func(a, b wire.Gap_Reason) int {
		return cmp.Or(cmp.Compare(f.gaps[a].until, f.gaps[b].until), cmp.Compare(a, b))
	}) {
		g := f.gaps[reason]
		at := g.until
		if len(f.times) > 0 {
			at = min(at, f.times[0])
		}
		times = append(times, at)
		events = append(events, &wire.Event{Kind: wire.Event_GAP, Gap: &wire.Gap{Reason: reason, Count: g.count, After: min(g.after, at)}})
	}
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
