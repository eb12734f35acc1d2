package main

import (
	"context"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
)

// dropin counts events that come through Go channels.
func dropin(ctx context.Context, module *libbpfgo.Module) (c counts) {
	events, lost := make(chan []byte, 1024), make(chan uint64, 16)
	buffer, err := perfchan.InitPerfBuf(module, "events", events, lost, 64)
	must(0, err)
	defer buffer.Close()
	must(0, module.AttachPrograms())
	buffer.Poll(300)
	for {
		select {
		case data := <-events:
			must(0, c.add(data))
		case n := <-lost:
			c.lost += n
		case <-ctx.Done():
			return c
		}
	}
}
