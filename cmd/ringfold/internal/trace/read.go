package trace

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// reading reads a set into a timeline. It is the stream that source.Set.Run reads: one that samples counters in between.
type reading struct {
	*config
	source.Stream
	set   *source.Set
	live  bool         // of maps, with rings that fill
	start uint64       // if live
	stop  func() error // called at the end, unless it is nil
	show  func(*timeline, source.Event) error

	stdout io.Writer
	out    *output
	l      *timeline // nil before it begins: of a recording, with the first event
	latest uint64    // time of the latest event

	sampled  uint64 // when counters were sampled
	sampling bool   // they are, before and after this pass
}

// options of maps: if each event woke us, each wakeup would be an event, and so on.
func (c *config) options(o perfbuf.Options) perfbuf.Options {
	o.Wakeup = perfbuf.Wakeup{Bytes: int(c.RingSize) / 8, PollInterval: 20 * time.Millisecond}
	return o
}

// run reads until the end, and completes the trace. Of a recording that was cut, it shows what is there.
func (r *reading) run(ctx context.Context, in source.Stream) (sum summary, err error) {
	r.Stream = in
	if r.live {
		err = r.begin(r.start)
	}
	if err == nil {
		err = r.set.Run(ctx, r, r.event, r.counters)
	}
	if r.l == nil {
		if err == nil {
			err = errors.New("there are no events that match")
		}
		return sum, err
	}
	if err == nil || source.Incomplete(err) {
		failed := r.complete()
		if err = errors.Join(err, r.out.close(failed)); failed == nil {
			err = errors.Join(err, r.set.Untimed())
		}
		return r.l.sum, err
	}
	return sum, r.out.close(err)
}

// begin begins the timeline.
func (r *reading) begin(time uint64) (err error) {
	var cpus []int
	for _, s := range r.set.All() {
		if s.Live == nil {
			for _, ring := range s.Reader.Rings() { // Options have no CPUs of BPF ring buffers
				cpus = append(cpus, ring.CPU())
			}
		}
	}
	slices.Sort(cpus)
	if r.out, err = newOutput(r.write, r.stdout); err != nil {
		return err
	}
	r.l = newTimeline(r.out, time, slices.Compact(cpus))
	r.l.sum.File = r.write
	return nil
}

// event shows an event.
func (r *reading) event(ev source.Event) error {
	if r.l == nil {
		if err := r.begin(ev.Time()); err != nil {
			return err
		}
	}
	r.latest = max(r.latest, ev.Time())
	if !r.l.within(ev.Time()) {
		return nil
	}
	if err := r.show(r.l, ev); err != nil {
		return err
	}
	return r.l.trace.err
}

// complete writes the end of the trace.
func (r *reading) complete() error {
	if r.live {
		r.latest, r.sampling = min(r.l.end, perfbuf.Now()), true
		r.counters()
		for _, s := range r.set.All() {
			total := s.Reader.Stats().Total()
			r.l.sum.HighWater = max(r.l.sum.HighWater, float64(total.HighWater)/float64(max(total.Size, 1)))
		}
	}
	r.l.finish(r.latest)
	r.l.sum.Command = r.set.Command
	return r.l.trace.close(map[string]any{"tool": "ringfold trace", "version": perfbuf.Version(), "summary": r.l.sum})
}

// beat is the time between passes that counters are sampled around: more would make the file large.
const beat = 10 * time.Millisecond

// RunBatches samples the counters of what has gathered before a pass. After the pass they show what was left.
func (r *reading) RunBatches(ctx context.Context, f func(*perfbuf.Batch) error) error {
	begins := true
	return r.Stream.RunBatches(ctx, func(b *perfbuf.Batch) error {
		if begins {
			r.sampling = r.live && perfbuf.Now()-r.sampled >= uint64(beat)
			if err := r.counters(); err != nil {
				return err
			}
		}
		begins = b.End()
		return f(b)
	})
}

// counters samples them, if it is time.
func (r *reading) counters() error {
	if !r.sampling {
		return nil
	}
	r.sampled = perfbuf.Now()
	for _, s := range r.set.All() {
		r.l.counters(s.Label, r.sampled, s.Reader.Stats().Rings)
	}
	return r.l.trace.err
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
