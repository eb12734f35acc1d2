// Ordered prints the processes that start, run programs and end on all CPUs, as one stream in order of time.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"time"

	bpf "github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
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
	lines   = flag.Bool("json", false, "print a JSON object per event, and the summary last")
	load    = flag.Bool("workload", false, "also start short-lived processes on every CPU")
	fake    = flag.Bool("simulate", false, "read a simulated kernel, which needs no privilege")
	limit   = flag.Duration("duration", 1<<62, "end after this time")
	mode    = flag.String("mode", "exact", "exact: print an event once it is proved that no older one is to come; slack: after -slack")
	slack   = flag.Duration("slack", time.Millisecond, "how long an older event may take to come")
)

// seen is what was printed. That the times go up is checked here, whatever the library says.
type seen struct{ events, late, outOfOrder, newest uint64 }

func main() {
	log.SetFlags(0)
	flag.Parse()
	order, ok := map[string]perfbuf.Order{"exact": {}, "slack": perfbuf.Slack(*slack)}[*mode]
	if !ok || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	source := traced
	if *fake {
		source = simulated
	}
	reader, start := source()
	stream := must(reader.Stream(perfbuf.StreamOptions{Order: order}))
	start()                                   // now that there are rings
	defer time.AfterFunc(*limit, stop).Stop() // loading took a while
	if *load {
		startProcesses(reader.Options().CPUs)
	}
	var s seen
	if err := stream.Run(ctx, s.print); ctx.Err() == nil {
		log.Fatal(err)
	}
	must(0, stream.Shutdown(context.Background(), s.print)) // the rest, then close
	t := reader.Stats().Total()
	fmt.Printf("{\"summary\":%s}\n", must(json.Marshal(map[string]any{"mode": *mode, "simulated": *fake,
		"events": s.events, "late": s.late, "out_of_order": s.outOfOrder,
		"outputs": t.Samples + t.Lost + t.Dropped, "samples": t.Samples, "lost": t.Lost, "unread": t.Dropped})))
}

// print prints an event, or a loss.
func (s *seen) print(ev perfbuf.Event) error {
	p, _ := decoder.Decode(ev) // of a loss there is none
	what := ev.Kind().String()
	if ev.Kind() == perfbuf.KindSample {
		what = kinds[p.Kind]
	}
	s.events++
	if ev.Late() {
		s.late++
	} else if ev.Time() < s.newest {
		s.outOfOrder++
	}
	s.newest = max(s.newest, ev.Time())
	comm := unix.ByteSliceToString(p.Comm[:])
	if *lines {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"time_ns": ev.Time(), "cpu": ev.CPU(), "event": what, "pid": p.PID, "comm": comm, "lost": ev.Lost(), "late": ev.Late()})
	}
	_, err := fmt.Printf("%d.%09d  CPU %-3d %-5s %7d  %-15s lost %d, late %t\n", ev.Time()/1e9, ev.Time()%1e9, ev.CPU(), what, p.PID, comm, ev.Lost(), ev.Late())
	return err
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal("ordered: ", err)
	}
	return v
}

// traced returns rings of the kernel, and what has its programs fill them.
func traced() (*perfbuf.Reader, func()) {
	bpf.SetLoggerCbs(bpf.Callbacks{Log: func(int, string) {}}) // errors say enough
	module := must(bpf.NewModuleFromBufferArgs(bpf.NewModuleArgs{BPFObjBuff: object, SkipMemlockBump: true}))
	must(0, module.BPFLoadObject())
	reader := must(perfbuf.Open(must(module.GetMap("events")).FileDescriptor(), perfbuf.Options{}))
	return reader, func() { must(0, module.AttachPrograms()) }
}

// simulated returns rings of a simulated kernel, and what fills these.
func simulated() (*perfbuf.Reader, func()) {
	kernel := perfbuftest.New(perfbuftest.Options{CPUs: 4, RealTime: true})
	return must(kernel.Open(perfbuf.Options{})), func() {
		go func() {
			for cpu := 0; kernel.Output(cpu, make([]byte, 24)) == nil; cpu = (cpu + 1) % 4 {
				time.Sleep(time.Millisecond)
			}
		}()
	}
}

// startProcesses has each CPU run one process after the other.
func startProcesses(cpus []int) {
	for _, cpu := range cpus {
		go func() {
			runtime.LockOSThread() // children inherit the thread's CPU
			var set unix.CPUSet
			set.Set(cpu)
			for unix.SchedSetaffinity(0, &set) == nil {
				_ = exec.Command("true").Run() // Ctrl-C may end it
				time.Sleep(20 * time.Millisecond)
			}
		}()
	}
}
