package main

import (
	"context"
	"fmt"
	"log"
	"os"

	bpf "github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
)

func main() {
	warnings := func(level int, _ string) (skip bool) { return level > bpf.LibbpfWarnLevel }
	bpf.SetLoggerCbs(bpf.Callbacks{LogFilters: []func(int, string) bool{warnings}})
	module := must(bpf.NewModuleFromFileArgs(bpf.NewModuleArgs{BPFObjPath: os.Args[1], SkipMemlockBump: true}))
	must(module, module.BPFLoadObject())
	events := must(module.GetMap("events"))
	reader := must(perfbuf.Open(events.FileDescriptor(), perfbuf.Options{}))
	stream := must(reader.Ordered(perfbuf.OrderOptions{}))
	must(module, module.AttachPrograms()) // not before: without rings, outputs are gone without a trace
	for ev, err := range stream.Events(context.Background()) {
		must(ev, err)
		fmt.Println(ev.Time(), ev.CPU(), ev.Kind(), ev.Bytes())
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
