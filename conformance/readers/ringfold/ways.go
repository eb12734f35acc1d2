//go:build linux && cgo

package main

import (
	"context"

	"github.com/ringfold/ringfold/perfbuf"
)

// runs returns what reads the maps, each for a goroutine of its own.
func (r *readers) runs() (runs []func(context.Context) error) {
	if r.stream != nil {
		return []func(context.Context) error{func(ctx context.Context) error { return r.stream.Run(ctx, r.deliver) }}
	}
	for _, reader := range r.all {
		if r.settings["way"] == "rings" {
			for _, ring := range reader.Rings() {
				runs = append(runs, func(ctx context.Context) error { return ring.Run(ctx, r.deliver) })
			}
			continue
		}
		runs = append(runs, func(ctx context.Context) error { return r.read(ctx, reader) })
	}
	return runs
}

// read reads a whole reader.
func (r *readers) read(ctx context.Context, reader *perfbuf.Reader) error {
	switch r.settings["way"] {
	case "events":
		for ev, err := range reader.Events(ctx) {
			if err != nil {
				return err
			}
			r.deliver(ev)
		}
		return nil
	case "records":
		for record, err := range reader.Records(ctx) {
			if err != nil {
				return err
			}
			r.deliverRecord(record)
		}
		return nil
	case "batches":
		return reader.RunBatches(ctx, r.deliverBatch)
	case "fold":
		for {
			if err := reader.Wait(ctx); err != nil {
				return err
			}
			if _, err := perfbuf.Fold(reader, 0, func(n int, ev perfbuf.Event) (int, error) { return n + 1, r.deliver(ev) }); err != nil {
				return err
			}
		}
	default:
		return reader.Run(ctx, r.deliver)
	}
}
