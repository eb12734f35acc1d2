//go:build linux && cgo

package main

import (
	"context"
	"sync"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// way reads until ctx is done or the reader is closed, and says so, or until the ledger stops it.
type way func(context.Context, *perfbuf.Stream, *ledger) error

// modeNames are the modes, in the order in which -mode all goes through them.
var modeNames = []string{"fold", "foreach", "batches", "records", "rings", "slack", "exact", "sources"}

// ways are those of each mode. Rings has its own.
var ways = map[string][]way{
	"fold":    {fold},
	"foreach": {forEach, run, events},
	"batches": {forEachBatch, runBatches},
	"records": {records},
	"slack":   {forEach, run, events, runBatches, records, fold},
	"exact":   {forEach, run, events, runBatches, records, fold},
	"sources": {forEach, run, events, runBatches, records, fold},
}

// isOrdered says which modes are in order.
func isOrdered(mode string) bool { return mode == "slack" || mode == "exact" || mode == "sources" }

// passes calls pass each time that there is something to read.
func passes(ctx context.Context, src *perfbuf.Stream, pass func() error) error {
	for {
		if err := src.Wait(ctx); err != nil {
			return err
		}
		if err := pass(); err != nil {
			return err
		}
	}
}

func forEach(ctx context.Context, src *perfbuf.Stream, l *ledger) error {
	return passes(ctx, src, func() error { return src.ForEach(l.deliver) })
}

func forEachBatch(ctx context.Context, src *perfbuf.Stream, l *ledger) error {
	return passes(ctx, src, func() error { return src.ForEachBatch(batch(l)) })
}

func fold(ctx context.Context, src *perfbuf.Stream, l *ledger) error {
	return passes(ctx, src, func() error {
		calls := 0
		n, err := perfbuf.Fold(src, 0, func(n int, ev perfbuf.Event) (int, error) {
			calls++
			return n + 1, l.deliver(ev)
		})
		l.folded(n, calls)
		return err
	})
}

// folded checks the result of a fold.
func (l *ledger) folded(acc, calls int) {
	if acc != calls {
		l.violate("a fold returned %d after %d events", acc, calls)
	}
}

func run(ctx context.Context, src *perfbuf.Stream, l *ledger) error { return src.Run(ctx, l.deliver) }

func runBatches(ctx context.Context, src *perfbuf.Stream, l *ledger) error {
	return src.RunBatches(ctx, batch(l))
}

func batch(l *ledger) func(*perfbuf.Batch) error {
	return func(b *perfbuf.Batch) error {
		for ev := range b.Events() { // none at the end of a pass
			if err := l.deliver(ev); err != nil {
				return err
			}
		}
		return nil
	}
}

func events(ctx context.Context, src *perfbuf.Stream, l *ledger) error {
	for ev, err := range src.Events(ctx) {
		if err == nil {
			err = l.deliver(ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func records(ctx context.Context, src *perfbuf.Stream, l *ledger) error {
	for rec, err := range src.Records(ctx) {
		if err == nil {
			err = l.record(rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readRings has a goroutine for each ring, also for those that come later, until ctx is done or one
// ends.
func readRings(ctx context.Context, r *perfbuf.Reader, l *ledger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	began := map[*perfbuf.Ring]bool{}
	for ctx.Err() == nil {
		for i, ring := range r.Rings() {
			if !began[ring] {
				began[ring] = true
				all.Go(func() { cancel(readRing(ctx, ring, l, i%2 == 0)) })
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	all.Wait()
	return context.Cause(ctx)
}

func readRing(ctx context.Context, ring *perfbuf.Ring, l *ledger, batches bool) error {
	stream, err := ring.Stream()
	if err != nil {
		return err
	}
	defer stream.Close()
	if batches {
		return stream.RunBatches(ctx, func(b *perfbuf.Batch) error {
			for ev := range b.Events() {
				l.take(ev)
			}
			return nil
		})
	}
	return stream.Run(ctx, func(ev perfbuf.Event) error { l.take(ev); return nil })
}
