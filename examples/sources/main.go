// Sources prints the events of four sources as one stream, in order of time: two perf event arrays and a BPF ring buffer, which
// libbpfgo loads (life.bpf.c), and a BPF ring buffer per CPU, which cilium/ebpf loads (switches.bpf.c).
package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/aquasecurity/libbpfgo"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

//go:embed life.bpf.o
var lifeObject []byte

//go:embed switches.bpf.o
var switchesObject []byte

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
		Time                  uint64
		CPU, Parent, Child, _ uint32
	}
	switchEvent struct {
		Time             uint64
		CPU, From, To, _ uint32
	}
)

var (
	asExec   = perfbuf.NewDecoder[execEvent]()
	asExit   = perfbuf.NewDecoder[exitEvent]()
	asFork   = perfbuf.NewDecoder[forkEvent]()
	asSwitch = perfbuf.NewDecoder[switchEvent]()
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	// Two loaders. Any map that has a descriptor is a source.
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: func(int, string) {}}) // errors say as much
	life := must(libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: lifeObject, SkipMemlockBump: true}))
	must(0, life.BPFLoadObject())
	fd := func(name string) int { return must(life.GetMap(name)).FileDescriptor() }
	must(0, rlimit.RemoveMemlock()) // before Linux 5.11
	spec := must(ebpf.LoadCollectionSpecFromReader(bytes.NewReader(switchesObject)))
	scheduling := must(ebpf.NewCollection(spec))
	for cpu := range must(ebpf.PossibleCPU()) { // a ring buffer for each
		shard := must(ebpf.NewMap(spec.Maps["switches"].InnerMap))
		must(0, scheduling.Maps["switches"].Put(uint32(cpu), shard))
	}

	// In the ring buffers, events have their time at byte 0, and their CPU at byte 8.
	inPayload := perfbuf.Options{Time: perfbuf.StampedTime(0), CPU: perfbuf.PayloadCPU(8)}
	execs := must(perfbuf.Open(fd("execs"), perfbuf.Options{}))
	exits := must(perfbuf.Open(fd("exits"), perfbuf.Options{}))
	inPayload.LanesFD = fd("fork_lanes")
	forks := must(perfbuf.OpenRingBuf(fd("forks"), inPayload))
	inPayload.LanesFD = scheduling.Maps["lanes"].FD()
	switches := must(perfbuf.OpenRingBuf(scheduling.Maps["switches"].FD(), inPayload))
	stream := must(perfbuf.Merge(perfbuf.StreamOptions{}, execs, exits, forks, switches))

	// Not before there are rings, without which outputs fail.
	must(0, life.AttachPrograms())
	attached := must(link.AttachTracing(link.TracingOptions{Program: scheduling.Programs["on_switch"]}))

	show := func(ev perfbuf.Event) error {
		text := ev.String() // of losses
		if ev.Kind() == perfbuf.KindSample {
			text = describe(ev, ev.Source())
		}
		_, err := fmt.Printf("%16.6f  cpu %-3d %-9s %s\n", float64(ev.Time())/1e9, ev.CPU(), ev.Source(), text)
		return err
	}
	if err := stream.Run(ctx, show); ctx.Err() == nil {
		log.Fatal(err)
	}
	life.Close() // no more outputs, and then the rest
	must(0, attached.Close())
	must(0, stream.Shutdown(context.Background(), show))
}

// describe says what happened.
func describe(ev perfbuf.Event, source string) string {
	switch source {
	case "execs":
		e, _ := asExec.Decode(ev)
		return fmt.Sprintf("%d executes %s", e.PID, unix.ByteSliceToString(e.File[:]))
	case "exits":
		e, _ := asExit.Decode(ev)
		return fmt.Sprintf("%d exits with %d", e.PID, e.Code)
	case "forks":
		e, _ := asFork.Decode(ev)
		return fmt.Sprintf("%d forks %d", e.Parent, e.Child)
	default:
		e, _ := asSwitch.Decode(ev)
		return fmt.Sprintf("from %d to %d", e.From, e.To)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
