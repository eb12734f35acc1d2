package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"os"

	bpf "github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

//go:embed exec.bpf.o
var object []byte

func main() {
	if len(os.Args) > 1 {
		log.Fatal("prints the files that are executed; this is ", perfbuf.Version())
	}
	bpf.SetLoggerCbs(bpf.Callbacks{Log: func(int, string) {}})
	module := must(bpf.NewModuleFromBufferArgs(bpf.NewModuleArgs{BPFObjBuff: object, SkipMemlockBump: true}))
	must(0, module.BPFLoadObject())
	reader := must(perfbuf.Open(must(module.GetMap("events")).FileDescriptor(), perfbuf.Options{}))
	stream := must(reader.Ordered(perfbuf.OrderOptions{}))
	must(0, module.AttachPrograms()) // not before: without rings, outputs are gone without a trace
	for ev, err := range stream.Events(context.Background()) {
		must(0, err)
		fmt.Println(ev.Time(), ev.CPU(), ev.Kind(), unix.ByteSliceToString(ev.Bytes()), ev.Lost())
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
