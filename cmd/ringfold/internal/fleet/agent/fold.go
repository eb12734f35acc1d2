package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

	events []*wire.Event // of the open batch; until it is closed, their Delta is their time
	bytes  int
	opened time.Time
	last   uint64 // the time of the latest event: exact streams never go back

	gaps     map[wire.Gap_Reason]*wire.Event // what the next batch has to say
	clock    clock.Reading
	measured time.Time

	decoded uint64
	lost    map[wire.Gap_Reason]uint64
}

func newFolder(o Options, q *queue) *folder {
	return &folder{Options: o, queue: q, gaps: map[wire.Gap_Reason]*wire.Event{}, lost: map[wire.Gap_Reason]uint64{}}
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
		if len(f.events) > 0 && time.Since(f.opened) >= f.BatchDelay {
			f.close(0, false)
		}
	}
	return nil
}

// wait returns when there is something to do.
func (f *folder) wait(ctx context.Context, stream *perfbuf.Stream) error {
	due, cancel := ctx, context.CancelFunc(func() {})
	if len(f.events) > 0 {
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
		if len(f.events) == 0 {
			f.measured = time.Time{} // heartbeats have the clock anew
		}
		f.close(ev.Time(), false)
		return nil
	case perfbuf.KindLost:
		f.lost[wire.Gap_RING_FULL] += ev.Lost()
		f.add(newGap(wire.Gap_RING_FULL, ev.Time(), ev.Lost(), ev.LostAfter()))
	case perfbuf.KindCorrupt:
		f.Note(ev.Err().Error())
		f.lost[wire.Gap_CORRUPT]++
		f.add(newGap(wire.Gap_CORRUPT, ev.Time(), 0, 0))
	default:
		if ev.Time() < f.Source.Since() {
			return nil // no loss: nothing of that time is promised
		}
		e, err := decode(ev)
		if err != nil {
			return err
		}
		f.decoded++
		f.add(e)
	}
	if len(f.events) >= mostEvents || f.bytes >= mostBytes {
		f.close(0, false)
	}
	return nil
}

// decode copies a sample of lifecycle's. The numbers of kinds are the same there and on the wire.
func decode(ev perfbuf.Event) (*wire.Event, error) {
	p, err := lifecycle.Decode(ev)
	if err != nil {
		return nil, err
	}
	if p.Kind < lifecycle.Fork || p.Kind > lifecycle.Exit {
		return nil, fmt.Errorf("an event is of the unknown kind %d: lifecycle.bpf.o and event.go do not fit together", p.Kind)
	}
	utf8 := func(s string) string { return strings.ToValidUTF8(s, "�") } // names may hold any bytes, messages only UTF-8
	return &wire.Event{
		Kind: wire.Event_Kind(p.Kind), Delta: ev.Time(), Cpu: uint32(ev.CPU()), Pid: p.PID, Tid: p.TID,
		OtherPid: p.ChildPID, OtherTid: p.ChildTID, Code: p.Code, Comm: utf8(p.Comm()), Detail: utf8(p.File()),
	}, nil
}

func newGap(reason wire.Gap_Reason, time, count, after uint64) *wire.Event {
	return &wire.Event{Kind: wire.Event_GAP, Delta: time, Gap: &wire.Gap{Reason: reason, Count: count, After: min(after, time)}}
}

// add adds an event, whose Delta is its time, to the open batch.
func (f *folder) add(e *wire.Event) {
	if len(f.events) == 0 {
		f.opened = time.Now()
		f.bytes = 0
	}
	f.last = max(f.last, e.Delta)
	e.Delta = f.last
	f.events = append(f.events, e)
	f.bytes += proto.Size(e) + 6 // and its head
}

// close makes a batch of what there is, and hands it over. It proves the watermark, or the time of
// its last event if that is later. Without room in the spool its events are lost, and the next
// batch says so.
func (f *folder) close(watermark uint64, end bool) {
	now := time.Now()
	if now.Sub(f.measured) >= 10*time.Second {
		f.clock, f.measured = f.Clock(), now
	}
	b := &wire.Batch{
		Host: f.Host, BootId: f.BootID, Since: f.since, Watermark: max(watermark, f.last, f.since),
		WallOffset: f.clock.Offset, WallError: f.clock.Error, End: end, Events: append(f.told(), f.events...),
	}
	if b.BaseTime = b.Watermark; len(b.Events) > 0 {
		b.BaseTime = b.Events[0].Delta
	}
	for _, e := range b.Events {
		e.Delta -= b.BaseTime
	}
	data, err := wire.Marshal(b)
	if err != nil {
		panic(fmt.Sprintf("a batch of our own: %v", err)) // all of it was made here, within its bounds
	}
	events := f.events
	f.events = nil
	if f.queue.push(data, end && len(events) == 0) { // the last one has room in any case, without events
		f.since = b.Watermark
		clear(f.gaps)
		return
	}
	for _, e := range events {
		e.Delta += b.BaseTime
		f.lose(e)
	}
	if end {
		f.close(watermark, end)
	}
}

// told returns the gaps that earlier batches had no room for. They come by their end, then by
// reason, so that a batch is always the same.
func (f *folder) told() (gaps []*wire.Event) {
	for _, g := range f.gaps {
		gaps = append(gaps, newGap(g.Gap.Reason, g.Delta, g.Gap.Count, g.Gap.After))
	}
	slices.SortFunc(gaps, func(a, b *wire.Event) int {
		return cmp.Or(cmp.Compare(a.Delta, b.Delta), cmp.Compare(a.Gap.Reason, b.Gap.Reason))
	})
	return gaps
}

// lose gives up an event: the next batch says so.
func (f *folder) lose(e *wire.Event) {
	if e.Gap == nil {
		f.lost[wire.Gap_SPOOL_FULL]++
		e = newGap(wire.Gap_SPOOL_FULL, e.Delta, 1, e.Delta)
	}
	g := f.gaps[e.Gap.Reason]
	if g == nil {
		f.gaps[e.Gap.Reason] = e
		return
	}
	g.Delta, g.Gap.Count, g.Gap.After = max(g.Delta, e.Delta), g.Gap.Count+e.Gap.Count, min(g.Gap.After, e.Gap.After)
}
