// Recorder records which programs are executed, and which threads end, to a file that `perf script -i` reads: all events in the order of time,
// or with -flight those of the last moments before the end. With -replay it prints the events of such a file.
//
// The program is meant to be read. recorder.bpf.c has the BPF programs, and replay.go prints.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"time"

	bpf "github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"golang.org/x/sys/unix"
)

//go:embed recorder.bpf.o
var object []byte

func main() {
	log.SetFlags(0)
	log.SetPrefix("recorder: ")
	file := flag.String("o", "", "record to this file")
	duration := flag.Duration("duration", 0, "end after this time, such as 3s (default: with Ctrl-C or SIGUSR1)")
	age := flag.Duration("flight", 0, "write only what happened so long before the end, such as 1s")
	replayed := flag.String("replay", "", "print the events of this file")
	asJSON := flag.Bool("json", false, "with -replay: print an object per event, and a summary as the last one")
	flag.Parse()
	if flag.NArg() > 0 || (*file == "") == (*replayed == "") {
		log.Fatalf("give either -o FILE or -replay FILE; -h tells more; this is %v", perfbuf.Version())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGUSR1)
	defer stop()
	if *replayed != "" {
		replay(ctx, *replayed, *asJSON)
		return
	}

	bpf.SetLoggerCbs(bpf.Callbacks{Log: func(int, string) {}})
	programs := must(bpf.NewModuleFromBufferArgs(bpf.NewModuleArgs{BPFObjBuff: object, SkipMemlockBump: true}))
	must(0, programs.BPFLoadObject())
	attach := func() { // not before there are rings: outputs would be gone without a trace
		must(0, programs.AttachPrograms())
		if *duration > 0 { // from now on: loading takes a while
			time.AfterFunc(*duration, stop)
		}
		go startProcesses(ctx)
		log.Print("recording")
	}
	if *age > 0 {
		recordLast(ctx, programs, attach, *file, *age)
	} else {
		recordAll(ctx, programs, attach, *file)
	}
	log.Printf("now try: perf script -i %s, or recorder -replay %[1]s", *file)
}

// recordAll records all events until ctx is done.
func recordAll(ctx context.Context, programs *bpf.Module, attach func(), file string) {
	reader := must(perfbuf.Open(must(programs.GetMap("events")).FileDescriptor(), perfbuf.Options{}))
	stream := must(reader.Ordered(perfbuf.OrderOptions{}))
	rec := must(perfdata.Create(file, perfdata.Options{}))
	attach()
	if err := rec.Run(ctx, stream); ctx.Err() == nil {
		log.Fatal(err)
	}
	programs.Close() // no more outputs, and then the rest
	must(0, stream.Shutdown(context.Background(), rec.Record))
	must(0, rec.Close())
	log.Printf("%d events, %d lost", rec.Stats().Samples, rec.Stats().Lost)
}

// recordLast lets the kernel keep the newest events until ctx is done, and then records those that are not older than age.
func recordLast(ctx context.Context, programs *bpf.Module, attach func(), file string, age time.Duration) {
	rec := must(flight.Open(must(programs.GetMap("events")).FileDescriptor(), flight.Options{MinAge: age}))
	attach()
	<-ctx.Done() // nothing reads meanwhile
	snap := must(rec.Snapshot(context.Background()))
	out := must(os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)) // what is in it may be confidential
	_, err := snap.WriteTo(out)
	must(0, errors.Join(err, out.Close(), rec.Close()))
	log.Printf("%d events, which are all of the last %v", snap.Len(), snap.Age())
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
