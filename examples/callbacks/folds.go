package main

import (
	"context"
	"errors"
	"os"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
)

// folds counts events where they lie in the rings, until the workload has ended: nothing is copied or sent, losses come in
// their place among the events, and Shutdown delivers what is left, so nobody need know how many are to come.
func folds(w *workload) (c counts, err error) {
	module, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "callbacks", SkipMemlockBump: true})
	if err != nil {
		return c, err
	}
	defer module.Close()
	if err := module.InitGlobalVariable("config", w.filter()); err != nil {
		return c, err
	}
	if err := module.BPFLoadObject(); err != nil {
		return c, err
	}

	events, err := module.GetMap("events")
	if err != nil {
		return c, err
	}
	reader, err := perfbuf.Open(events.FileDescriptor(), perfbuf.Options{RingBytes: 64 * os.Getpagesize()})
	if err != nil {
		return c, err
	}
	defer reader.Close()
	if err := module.AttachPrograms(); err != nil {
		return c, err
	}
	count := func(ev perfbuf.Event) error {
		switch ev.Kind() {
		case perfbuf.KindSample:
			return c.add(ev.Bytes()) // valid until count returns
		case perfbuf.KindLost:
			c.lost += ev.Lost()
		}
		return ev.Err() // nil, unless memory is corrupt
	}

	running, err := w.start(module)
	if err != nil {
		return c, err
	}
	defer w.close()
	if err := reader.Run(running, count); !errors.Is(err, context.Canceled) {
		return c, err
	}
	if c.attempted, err = w.attempted(); err != nil {
		return c, err
	}
	err = reader.Shutdown(context.Background(), count) // what the rings still hold
	return c, err
}
