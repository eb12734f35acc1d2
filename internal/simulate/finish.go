package simulate

import (
	"context"
	"fmt"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/perfbuf"
)

// drain ends a run as a user does: detach the programs, let running ones finish, and drain.
func (w *world) drain() error {
	w.rest = w.truth.delivered
	defer func() { w.rest = w.truth.delivered - w.rest }()
	for w.kernel.asleep() {
		w.kernel.step()
	}
	if err := w.rejoin(); err != nil {
		return err
	}
	before := w.kernel.clock
	if err := w.stream.Drain(context.Background(), w.deliver); err != nil {
		return err
	}
	if at := w.watermark(); at < before-grace.DefaultGuard-1 {
		return fmt.Errorf("%w: it is %d after a Drain at %d", ErrWatermark, at, before)
	}
	if err := w.truth.complete(w.watermark()); err != nil {
		return err
	}
	return w.drained()
}

// drained checks that nothing is left.
func (w *world) drained() error {
	if w.kernel.running() {
		return fmt.Errorf("%w: Drain has not waited for the programs", ErrRest)
	}
	if len(w.flushes) > 0 {
		return fmt.Errorf("%w: flushes of %v were never answered", ErrWatermark, w.flushes)
	}
	if err := w.missing(); err != nil {
		return err
	}
	for _, src := range w.sources {
		if err := src.drained(); err != nil {
			return fmt.Errorf("%v: %w", src, err)
		}
	}
	if used := w.spilled(); used != 0 {
		return fmt.Errorf("%w: %d bytes of copies", ErrRest, used)
	}
	return nil
}

func (src *source) drained() error {
	for i := range src.rings() {
		if src.tail(i) != src.head(i) {
			return fmt.Errorf("%w: ring %d has its head at %#x, its tail at %#x", ErrRest, i, src.head(i), src.tail(i))
		}
	}
	for i := range src.losses {
		l := &src.losses[i]
		if err := l.check(src.world.Skew); err != nil {
			return err
		}
		failed := l.total()
		if src.perf != nil && src.world.NoCounter {
			failed -= src.perf.Ring(i).Pending()
		}
		if l.reported > failed || l.reported < failed && !src.leaves { // held losses go with it
			return fmt.Errorf("%w: CPU %d: %d reported, %d failed", ErrLoss, i, l.reported, failed)
		}
	}
	return nil
}

// spilled returns the bytes that copies use.
func (w *world) spilled() (n uint64) {
	for _, src := range w.sources {
		n += src.reader.Stats().SpillUsed
	}
	return n
}

// missing checks that each undelivered record counts as dropped.
func (w *world) missing() error {
	for _, src := range w.sources {
		left := append([]uint64(nil), src.dropped...)
		for _, r := range w.truth.pending {
			if r.to == src {
				left[r.ring]++
			}
		}
		for i, s := range src.stats().Rings {
			if s.Dropped != left[i] {
				return fmt.Errorf("%w: %v, ring %d: %d were not delivered, %d dropped", ErrMissing, src, i, left[i], s.Dropped)
			}
		}
	}
	return nil
}

// close closes everything, and checks the counts that remain.
func (w *world) close() (res Result, err error) {
	if w.sched.IntN(2) == 0 {
		w.stream.Close()
	}
	t := w.truth
	res = Result{
		Events: t.delivered, Gaps: t.gaps, Passes: w.passes, Rest: w.rest, Markers: t.markers,
		Barriers: w.sources[0].reader.Stats().Barrier.Count,
	}
	var samples uint64
	for _, src := range w.sources {
		src.reader.Close()
		stats := src.stats()
		if err := src.counted(stats); err != nil {
			return res, fmt.Errorf("%v: %w", src, err)
		}
		res.Late += stats.Late
		res.Inversions += stats.Inversions
		res.Spilled += stats.SpilledBytes
		res.Refused += stats.SpillRefused
		res.Again += sum(src.again)
		for _, r := range stats.Rings {
			samples += r.Samples
			res.Lost += r.Lost
			res.Dropped += r.Dropped
			t.hash.add(r.Samples, r.Dropped, r.Lost, r.LostRecords, r.Bytes, r.TailStores)
		}
	}
	if samples != t.delivered || res.Late != t.late && !w.Stream.DropLate {
		return res, fmt.Errorf("%w: %d delivered, %d late, %d left: %+v", ErrCounts, t.delivered, t.late, len(t.pending), res)
	}
	t.hash.add(res.Late, res.Inversions, res.Spilled, res.Barriers, res.Passes)
	res.Hash = uint64(t.hash)
	return res, nil
}

// counted checks the Stats after Close against the kernel's own counts.
func (src *source) counted(stats perfbuf.Stats) error {
	w := src.world
	for i, r := range stats.Rings {
		var want, got uint64
		if src.perf != nil {
			c := w.kernel.CountsOf(src.perf.Array, i)
			want, got = c.Attempted-c.Refused, r.Samples+r.Dropped+r.Lost
			if w.NoCounter {
				want -= src.perf.Ring(i).Pending() + src.silent[i]
			}
		} else {
			want, got = src.final[i]+src.again[i], r.Samples+r.Dropped
		}
		if got != want || r.Corrupt+r.Unknown+r.Shared > 0 {
			return fmt.Errorf("%w: ring %d: %+v, which is %d of %d", ErrCounts, i, r, got, want)
		}
	}
	return nil
}
