// Sources prints the events of four sources as one stream, in the order of time: two perf event arrays and a BPF ring buffer, which
// libbpfgo has loaded, and a BPF ring buffer per CPU, which cilium/ebpf has loaded.
//
// The program is meant to be read. programs.go loads the BPF programs (life.bpf.c, switches.bpf.c), and print.go prints.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// What the programs output, as in their C sources.
type (
	execEvent struct {
		PID  uint32
		File [60]byte
	}
	exitEvent struct {
		PID  uint32
		Code int32
	}
	forkEvent struct {
		Time               uint64
		CPU, Parent, Child uint32
		_                  uint32
	}
	switchEvent struct {
		Time          uint64
		CPU, From, To uint32
		_             uint32
	}
)

var (
	asExec   = perfbuf.NewDecoder[execEvent]()
	asExit   = perfbuf.NewDecoder[exitEvent]()
	asFork   = perfbuf.NewDecoder[forkEvent]()
	asSwitch = perfbuf.NewDecoder[switchEvent]()
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("sources: ")
	asJSON := flag.Bool("json", false, "print an object per event, and a summary as the last one")
	duration := flag.Duration("duration", 0, "end after this time, such as 3s (default: with Ctrl-C)")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unknown argument %q; this is %v", flag.Arg(0), perfbuf.Version())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	life, scheduling := loadLife(), loadScheduling()

	// In the ring buffers, events have their time at byte 0, and their CPU at byte 8.
	inPayload := perfbuf.RingBufOptions{Time: perfbuf.StampedTime(0), CPU: perfbuf.PayloadCPU(8)}
	execs := must(perfbuf.Open(life.fd("execs"), perfbuf.Options{}))
	exits := must(perfbuf.Open(life.fd("exits"), perfbuf.Options{}))
	inPayload.LossesFD = life.fd("fork_losses")
	forks := must(perfbuf.OpenRingBuf(life.fd("forks"), inPayload))
	inPayload.LossesFD = scheduling.fd("losses")
	switches := must(perfbuf.OpenRingBuf(scheduling.fd("switches"), inPayload))
	stream := must(perfbuf.Merge(perfbuf.OrderOptions{}, execs, exits, forks, switches))
	life.attach() // not before: without rings, outputs are gone without a trace
	scheduling.attach()
	if *duration > 0 { // from now on: loading takes a while
		ctx, stop = context.WithTimeout(ctx, *duration)
		defer stop()
	}
	go startProcesses(ctx)

	p := printer{asJSON: *asJSON, names: map[*perfbuf.Reader]string{execs: "execs", exits: "exits", forks: "forks", switches: "switches"}}
	show := func(ev perfbuf.Event) error {
		switch ev.Source() {
		case execs:
			e, _ := asExec.Decode(ev)
			return p.print(ev, "%d executes %s", e.PID, unix.ByteSliceToString(e.File[:]))
		case exits:
			e, _ := asExit.Decode(ev)
			return p.print(ev, "%d exits with %d", e.PID, e.Code)
		case forks:
			e, _ := asFork.Decode(ev)
			return p.print(ev, "%d forks %d", e.Parent, e.Child)
		default: // switches
			e, _ := asSwitch.Decode(ev)
			return p.print(ev, "from %d to %d", e.From, e.To)
		}
	}
	if err := stream.Run(ctx, show); ctx.Err() == nil {
		log.Fatal(err)
	}
	life.close() // no more outputs, and then the rest
	scheduling.close()
	must(0, stream.Shutdown(context.Background(), show))
	must(0, p.summary())
}

// startProcesses is for something to see on a machine that does nothing.
func startProcesses(ctx context.Context) {
	for ctx.Err() == nil {
		_ = exec.Command("true").Run() // which may not exist
		time.Sleep(100 * time.Millisecond)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
