// Lanes reads every system call of the machine, more than it can handle, and loses no fork, exec or exit for it.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"
	"unsafe"

	bpf "github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
)

//go:embed lanes.bpf.o
var object []byte

// event is struct event of lanes.bpf.c.
type event struct {
	Kind, PID uint32
	Call      int64
}

var (
	kinds   = []string{"forks", "execs", "exits", "calls"}
	decoder = perfbuf.NewDecoder[event]()
)

func main() {
	work := flag.Duration("work", 5*time.Microsecond, "how long each event takes to handle")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bpf.SetLoggerCbs(bpf.Callbacks{Log: func(int, string) {}}) // errors say enough
	module := must(bpf.NewModuleFromBufferArgs(bpf.NewModuleArgs{BPFObjBuff: object, SkipMemlockBump: true}))
	must(0, module.BPFLoadObject())
	pid := uint32(os.Getpid())
	must(0, must(module.GetMap(".bss")).Update(unsafe.Pointer(new(uint32)), unsafe.Pointer(&pid)))
	fd := func(name string) int { return must(module.GetMap(name)).FileDescriptor() }
	reader := must(perfbuf.Open(fd("events"), perfbuf.Options{LanesFD: fd("lanes"), Lanes: []int{50, 100}}))
	stream := must(reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered(), MaxDelay: 100 * time.Millisecond}))
	must(0, module.AttachPrograms()) // now that there are rings

	counts := map[string]uint64{}
	handle := func(ev perfbuf.Event) error {
		switch e, ok := decoder.Decode(ev); {
		case ok:
			counts[kinds[e.Kind]]++
			for begin := time.Now(); time.Since(begin) < *work; { // as if it were handled
			}
		default: // receipts: so many calls are missing here
			counts[ev.Kind().String()] += ev.Lost()
			fmt.Println(ev)
		}
		return nil
	}
	if err := stream.Run(ctx, handle); ctx.Err() == nil {
		log.Fatal(err)
	}
	module.Close() // Ctrl-C: no more outputs
	must(0, stream.Shutdown(context.Background(), handle))
	<-reader.Done() // the counts are final
	fmt.Println(counts)
	life, calls := perfbuf.CPUOutputs{}, perfbuf.CPUOutputs{}
	for _, c := range reader.Stats().Outputs.CPUs {
		to := []*perfbuf.CPUOutputs{&calls, &life}[c.Lane]
		to.Attempted, to.Written, to.Shed, to.Full = to.Attempted+c.Attempted, to.Written+c.Written, to.Shed+c.Shed, to.Full+c.Full
	}
	fmt.Printf("calls: %d attempted = %d written + %d shed + %d lost\n", calls.Attempted, calls.Written, calls.Shed, calls.Full)
	fmt.Printf("life: %d attempted = %d written + %d shed + %d lost\n", life.Attempted, life.Written, life.Shed, life.Full)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
