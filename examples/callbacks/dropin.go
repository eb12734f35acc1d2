package main

import (
	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
)

// dropin counts events that come through Go channels, until the workload has ended and all are here.
func dropin(w *workload) (c counts, err error) {
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

	events, lost := make(chan []byte, 1024), make(chan uint64, 16)
	buffer, err := perfchan.InitPerfBuf(module, "events", events, lost, 64)
	if err != nil {
		return c, err
	}
	defer buffer.Close()
	if err := module.AttachPrograms(); err != nil {
		return c, err
	}
	buffer.Poll(300)

	running, err := w.start(module)
	if err != nil {
		return c, err
	}
	defer w.close()
	for ended := running.Done(); !c.complete(); {
		select {
		case data := <-events:
			err = c.add(data)
		case n := <-lost:
			c.lost += n
		case <-ended: // but events are still under way: so many will be here or lost
			ended = nil
			c.attempted, err = w.attempted()
		}
		if err != nil {
			return c, err
		}
	}
	buffer.Stop()
	return c, nil
}
