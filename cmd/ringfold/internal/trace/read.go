package trace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// reading reads a set into a timeline. It is the stream that source.Set.Run reads: one that samples counters in between.
type reading struct {
	*config
	source.Stream
	set    *source.Set
	live   bool         // of maps, with rings that fill
	start  uint64       // of what is live
	stop   func() error // called at the end
	show   func(*timeline, source.Event) error
	trace  *trace
	l      *timeline
	sum    *summary
	latest uint64 // time of the latest event

	sampled  uint64 // when counters were sampled
	sampling bool   // they are, before and after this pass
}

// options of maps: if each event woke us, each wakeup would be an event, and so on.
func (c *config) options(o perfbuf.Options) perfbuf.Options {
	o.Wakeup = perfbuf.Wakeup{Bytes: int(c.RingSize) / 8, PollInterval: 20 * time.Millisecond}
	return o
}

// run reads until the end, and completes the trace. Of a recording that was cut, it shows what is there.
func (r *reading) run(ctx context.Context, in source.Stream, w *output) error {
	r.Stream = in
	var cpus []int
	for _, s := range r.set.Sources {
		cpus = append(cpus, s.Reader.Options().CPUs...)
	}
	slices.Sort(cpus)
	cpus = slices.Compact(cpus)
	*r.sum = summary{File: r.write, CPUs: len(cpus)}
	begin := func(time uint64) (err error) {
		r.trace = newTrace(w)
		r.l, err = newTimeline(r.trace, time, cpus, r.sum)
		return err
	}
	if r.live {
		if err := begin(r.start); err != nil {
			return err
		}
	}
	end := r.set.Run(ctx, r, func(ev source.Event) error {
		if r.l == nil {
			if err := begin(ev.Time()); err != nil {
				return err
			}
		}
		r.latest = max(r.latest, ev.Time())
		return r.show(r.l, ev)
	}, r.counters)
	switch {
	case end != nil && (!source.Incomplete(end) || r.l == nil):
		return end
	case r.l == nil:
		return fmt.Errorf("%s has no events that match", r.set.Sources[0])
	case r.live:
		r.latest, r.sampling = r.l.end, true
		if err := r.counters(); err != nil {
			return err
		}
		for _, s := range r.set.Sources {
			total := s.Reader.Stats().Total()
			r.sum.HighWater = max(r.sum.HighWater, float64(total.HighWater)/float64(max(total.Size, 1)))
		}
	}
	if err := r.l.finish(r.latest); err != nil {
		return err
	}
	r.sum.Seconds = float64(r.latest-r.l.start) / 1e9
	if child := r.set.Child; child != nil {
		r.sum.Command = &command{Args: child.Args}
		r.sum.Command.Status, r.sum.Command.Exit = child.Status()
	}
	about := map[string]any{"tool": "ringfold trace", "version": perfbuf.Version().String(), "summary": r.sum}
	if err := r.trace.close(about); err != nil {
		return err
	}
	return errors.Join(end, w.keep(), r.set.Untimed())
}

// beat is the time between passes that counters are sampled around: more would make the file large.
const beat = 10 * time.Millisecond

// Wait samples the counters of what has gathered. After the pass they show what was left.
func (r *reading) Wait(ctx context.Context) error {
	if err := r.Stream.Wait(ctx); err != nil {
		return err
	}
	r.sampling = r.live && perfbuf.Now()-r.sampled >= uint64(beat)
	return r.counters()
}

// counters samples them, if it is time.
func (r *reading) counters() error {
	if !r.sampling {
		return nil
	}
	r.sampled = perfbuf.Now()
	for _, s := range r.set.Sources {
		if err := r.l.counters(s.Label, r.sampled, s.Reader.Stats().Rings); err != nil {
			return err
		}
	}
	return nil
}

// Shutdown ends the timeline here: of what comes meanwhile, some may be missing.
func (r *reading) Shutdown(ctx context.Context, each func(perfbuf.Event) error) error {
	r.l.end = perfbuf.Now()
	if r.stop != nil {
		if err := r.stop(); err != nil {
			return err
		}
	}
	return r.Stream.Shutdown(ctx, each)
}
