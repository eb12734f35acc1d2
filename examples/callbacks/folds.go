package main

import (
	"context"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
)

// folds counts events in the ring buffers: nothing is copied or sent.
func folds(ctx context.Context, module *libbpfgo.Module) (c counts) {
	reader := must(perfbuf.Open(must(module.GetMap("events")).FileDescriptor(), perfbuf.Options{}))
	stream := must(reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})) // the fullest buffer first
	must(0, module.AttachPrograms())
	count := func(ev perfbuf.Event) error {
		switch ev.Kind() {
		case perfbuf.KindSample:
			return c.add(ev.Bytes()) // valid until count returns
		case perfbuf.KindLost:
			c.lost += ev.Lost()
		}
		return ev.Err() // nil, unless memory is corrupt
	}
	if err := stream.Run(ctx, count); ctx.Err() == nil {
		must(0, err)
	}
	must(0, stream.Shutdown(context.Background(), count)) // delivers what the buffers still hold, and closes
	return c
}
