//go:build linux

package main

import (
	"context"

	"github.com/ringfold/ringfold/perfbuf"
)

// runs returns what reads the streams, each for a goroutine of its own.
func (r *readers) runs() (runs []func(context.Context) error) {
	for _, stream := range r.streams() {
		runs = append(runs, func(ctx context.Context) error { return r.read(ctx, stream) })
	}
	return runs
}

// streams are one of all readers, or with way=rings one of each ring, also of those that have come since the last call.
func (r *readers) streams() []*perfbuf.Stream {
	if r.stream != nil {
		return []*perfbuf.Stream{r.stream}
	}
	var all []*perfbuf.Stream
	for _, reader := range r.all {
		for _, ring := range reader.Rings() {
			if r.rings[ring] == nil {
				stream, err := ring.Stream()
				if err != nil { // the reader is closed
					continue
				}
				r.rings[ring] = stream
			}
			all = append(all, r.rings[ring])
		}
	}
	return all
}

// read reads a stream.
func (r *readers) read(ctx context.Context, stream *perfbuf.Stream) error {
	switch r.settings.Way {
	case "events":
		for ev, err := range stream.Events(ctx) {
			if err != nil {
				return err
			}
			r.deliver(ev)
		}
		return nil
	case "records":
		for record, err := range stream.Records(ctx) {
			if err != nil {
				return err
			}
			r.deliverRecord(record)
		}
		return nil
	case "batches":
		return stream.RunBatches(ctx, r.deliverBatch)
	case "fold":
		for {
			if err := stream.Wait(ctx); err != nil {
				return err
			}
			if _, err := perfbuf.Fold(stream, 0, func(n int, ev perfbuf.Event) (int, error) { return n + 1, r.deliver(ev) }); err != nil {
				return err
			}
		}
	default:
		return stream.Run(ctx, r.deliver)
	}
}
