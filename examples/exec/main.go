// Exec prints each file that is executed, on all CPUs, in order of time, and what was lost; it loads its BPF program with libbpfgo.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	module := must(bpf.NewModuleFromBufferArgs(bpf.NewModuleArgs{BPFObjBuff: object, SkipMemlockBump: true}))
	defer module.Close()
	must(0, module.BPFLoadObject())
	reader := must(perfbuf.Open(must(module.GetMap("events")).FileDescriptor(), perfbuf.Options{}))
	stream := must(reader.Stream(perfbuf.StreamOptions{})) // all CPUs, in order of time

	must(0, module.AttachPrograms()) // now that there are rings
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
