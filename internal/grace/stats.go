package grace

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// stalledAfter is how long a round takes before it counts as stalled: a hundred times what it
// takes on slow kernels.
const stalledAfter = time.Second

// BarrierStats say how a barrier's rounds have gone. Durations are those of the successful ones.
type BarrierStats struct {
	Provider string        // its name
	Refused  error         // why the others are not used, a line each; nil if Open did not make the provider
	Cost     time.Duration // of a wait, as the process's first Open of the provider measured it; 0 if not measured
	Count    uint64        // rounds whose wait succeeded
	Failed   uint64        // rounds whose wait failed, but not with os.ErrClosed
	P50, P99 time.Duration // within 7 %
	Max      time.Duration
	Last     time.Duration
	Stalled  time.Duration // how long the running round has been under way, if more than a second; else 0
	Err      error         // of the last wait that failed; nil if none has
}

// durations are the numbers behind Stats. One round at a time writes them; reads need no lock.
type durations struct {
	base          time.Time // what running counts from
	running       atomic.Int64
	failing       atomic.Int64 // since when no wait has succeeded, 0 if the last one did; else plus 1
	count, failed atomic.Uint64
	last, max     atomic.Int64
	err           atomic.Pointer[error]
	histogram     histogram
}

// begin records that a round has begun, and returns when, since base.
func (d *durations) begin() time.Duration {
	now := time.Since(d.base)
	d.running.Store(int64(now) + 1) // 0 is for none
	return now
}

// end records how the round that began then has ended.
func (d *durations) end(began time.Duration, err error) {
	took := time.Since(d.base) - began
	d.running.Store(0)
	switch {
	case errors.Is(err, os.ErrClosed): // neither: it was cut short
		return
	case err != nil:
		d.failed.Add(1)
		d.failing.CompareAndSwap(0, int64(began)+1)
		failure := err // a copy, so that only failures allocate
		d.err.Store(&failure)
		return
	}
	d.failing.Store(0)
	d.histogram.add(took)
	d.last.Store(int64(took))
	d.max.Store(max(d.max.Load(), int64(took)))
	d.count.Add(1)
}

// Stats returns numbers on the rounds so far. It does not block. During a round, its numbers may differ by
// that one.
func (b *Barrier) Stats() BarrierStats {
	d := &b.durations
	s := BarrierStats{
		Provider: b.provider.Name(),
		Count:    d.count.Load(),
		Failed:   d.failed.Load(),
		Max:      time.Duration(d.max.Load()),
		Last:     time.Duration(d.last.Load()),
	}
	if c, ok := b.provider.(*choice); ok {
		s.Refused, s.Cost = errors.Join(c.refusals()...), c.first().cost
	}
	// The middle of a bucket may be above all that is in it.
	s.P50 = min(d.histogram.quantile(0.50), s.Max)
	s.P99 = min(d.histogram.quantile(0.99), s.Max)
	if began := d.running.Load(); began != 0 {
		if t := time.Since(d.base) - time.Duration(began-1); t > stalledAfter {
			s.Stalled = t
		}
	}
	if err := d.err.Load(); err != nil {
		s.Err = *err
	}
	return s
}
