package grace

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/quantile"
)

// stalledAfter is how long a round takes before it counts as stalled: a hundred times as long as on
// slow kernels.
const stalledAfter = time.Second

// BarrierStats describe a barrier's rounds. Durations are those of successful rounds.
type BarrierStats struct {
	Provider string // the provider's name
	// Why the other providers are not used, a line each; nil if Open did not make the provider.
	Refused error
	// Of a wait, as the process's first Open measured it; 0 if not measured.
	Cost     time.Duration
	Count    uint64        // rounds whose wait succeeded
	Failed   uint64        // rounds whose wait failed, but not with os.ErrClosed
	P50, P99 time.Duration // within 7 %
	Max      time.Duration
	Last     time.Duration
	// How long the current round has been under way, if more than a second; else 0.
	Stalled time.Duration
	Err     error // of the last wait that failed; nil if none has
}

// durations holds the numbers behind Stats. One round at a time writes them; reads need no lock.
type durations struct {
	base    time.Time // what running counts from
	running atomic.Int64
	// When the first wait since the last success began, plus 1; 0 if the last wait succeeded.
	failing atomic.Int64
	failed  atomic.Uint64
	last    atomic.Int64
	err     atomic.Pointer[error]
	took    quantile.Histogram // ns
}

// begin records the start of a round and returns it, relative to base.
func (d *durations) begin() time.Duration {
	now := time.Since(d.base)
	d.running.Store(int64(now) + 1) // 0 means none
	return now
}

// end records the result of the round that began then.
func (d *durations) end(began time.Duration, err error) {
	took := time.Since(d.base) - began
	d.running.Store(0)
	switch {
	case errors.Is(err, os.ErrClosed): // cut short: neither
		return
	case err != nil:
		d.failed.Add(1)
		d.failing.CompareAndSwap(0, int64(began)+1)
		failure := err // a copy, so that only failures allocate
		d.err.Store(&failure)
		return
	}
	d.failing.Store(0)
	d.took.Add(uint64(max(took, 0)))
	d.last.Store(int64(took))
}

// Stats returns the numbers so far, without blocking. During a round, they may be off by that one.
func (b *Barrier) Stats() BarrierStats {
	d := &b.durations
	s := BarrierStats{
		Provider: b.provider.Name(),
		Count:    d.took.Len(),
		Failed:   d.failed.Load(),
		P50:      time.Duration(d.took.Quantile(0.50)),
		P99:      time.Duration(d.took.Quantile(0.99)),
		Max:      time.Duration(d.took.Max()),
		Last:     time.Duration(d.last.Load()),
	}
	if c, ok := b.provider.(*choice); ok {
		s.Refused, s.Cost = errors.Join(c.refusals()...), c.first().cost
	}
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
