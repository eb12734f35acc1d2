// Cilium is exec with cilium/ebpf: it prints each file that is executed, on all CPUs, in order of time, and what was lost.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

func main() {
	file := "exec.bpf.o"
	if len(os.Args) > 1 {
		file = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bpf := must(ebpf.LoadCollection(file))
	defer bpf.Close()
	reader := must(perfbuf.Open(bpf.Maps["events"].FD(), perfbuf.Options{}))
	stream := must(reader.Stream(perfbuf.StreamOptions{})) // all CPUs, in order of time

	exec := must(link.AttachTracing(link.TracingOptions{Program: bpf.Programs["on_exec"]})) // now that there are rings
	defer exec.Close()
	show := func(ev perfbuf.Event) error {
		fmt.Println(ev.Time(), ev.CPU(), ev.Kind(), unix.ByteSliceToString(ev.Bytes()), ev.Lost())
		return nil
	}
	if err := stream.Run(ctx, show); !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	must(0, stream.Shutdown(context.Background(), show)) // Ctrl-C: the rest, then close
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
