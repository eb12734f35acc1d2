// Ordered prints the processes that start, run programs and end on all CPUs, as one stream in order of time.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	bpf "github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

//go:embed ordered.bpf.o
var object []byte

// process is struct process of ordered.bpf.c.
type process struct {
	Kind, PID uint32
	Comm      [16]byte
}

var (
	kinds   = []string{"fork", "exec", "exit"}
	decoder = perfbuf.NewDecoder[process]()
)

func main() {
	slack := flag.Duration("slack", 0, "print an event after this time; 0: once it is proved that no older one is to come")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bpf.SetLoggerCbs(bpf.Callbacks{Log: func(int, string) {}}) // errors say enough
	module := must(bpf.NewModuleFromBufferArgs(bpf.NewModuleArgs{BPFObjBuff: object, SkipMemlockBump: true}))
	must(0, module.BPFLoadObject())
	reader := must(perfbuf.Open(must(module.GetMap("events")).FileDescriptor(), perfbuf.Options{}))
	var order perfbuf.Order // exact
	if *slack > 0 {
		order = perfbuf.Slack(*slack)
	}
	stream := must(reader.Stream(perfbuf.StreamOptions{Order: order}))

	must(0, module.AttachPrograms()) // now that there are rings
	late, outOfOrder, newest := 0, 0, uint64(0)
	show := func(ev perfbuf.Event) error {
		if ev.Late() { // with -slack
			late++
		} else if ev.Time() < newest { // never: but look for yourself
			outOfOrder++
		}
		newest = max(newest, ev.Time())
		what := ev.String() // of losses
		if p, ok := decoder.Decode(ev); ok {
			what = fmt.Sprintf("%s %7d  %s", kinds[p.Kind], p.PID, unix.ByteSliceToString(p.Comm[:]))
		}
		_, err := fmt.Printf("%d.%09d  CPU %-3d %s\n", ev.Time()/1e9, ev.Time()%1e9, ev.CPU(), what)
		return err
	}
	if err := stream.Run(ctx, show); ctx.Err() == nil {
		log.Fatal(err)
	}
	must(0, stream.Shutdown(context.Background(), show)) // Ctrl-C: the rest, then close
	total := reader.Stats().Total()
	fmt.Printf("%d samples, %d lost, %d unread, %d late, %d out of order\n", total.Samples, total.Lost, total.Dropped, late, outOfOrder)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
