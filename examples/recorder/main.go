// Recorder records which programs are executed, and which threads end, to a file that `perf script -i` reads: all events in the
// order of time, or with -flight those of the last moments before the end. With -replay it prints the events of such a file.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
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
	duration := flag.Duration("duration", 24*time.Hour, "end after this time, such as 3s; Ctrl-C and SIGUSR1 end it too")
	age := flag.Duration("flight", 0, "write only what happened so long before the end, such as 1s")
	replayed := flag.String("replay", "", "print the events of this file")
	asJSON := flag.Bool("json", false, "with -replay: print an object per event, and a summary as the last one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGUSR1)
	if flag.NArg() > 0 || (*file == "") == (*replayed == "") {
		log.Fatalf("give either -o FILE or -replay FILE; -h tells more; this is %v", perfbuf.Version())
	} else if *replayed != "" {
		replay(ctx, *replayed, *asJSON)
		return
	}
	bpf.SetLoggerCbs(bpf.Callbacks{Log: func(int, string) {}})
	programs := must(bpf.NewModuleFromBufferArgs(bpf.NewModuleArgs{BPFObjBuff: object, SkipMemlockBump: true}))
	must(0, programs.BPFLoadObject())
	events := must(programs.GetMap("events")).FileDescriptor()
	begin := func() { // not before there are rings: outputs would be gone without a trace
		must(0, programs.AttachPrograms())
		time.AfterFunc(*duration, stop) // from now on: loading takes a while
		go func() {                     // something to see on a machine that does nothing
			for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
				_ = exec.Command("true").Run()
			}
		}()
		log.Print("recording")
	}
	if *age == 0 {
		stream := must(must(perfbuf.Open(events, perfbuf.Options{})).Stream(perfbuf.StreamOptions{}))
		rec := must(perfdata.Create(*file, perfdata.Options{}))
		begin()
		if err := rec.Run(ctx, stream); ctx.Err() == nil {
			log.Fatal(err)
		}
		programs.Close() // no more outputs, and then the rest
		must(0, stream.Shutdown(context.Background(), rec.Record))
		must(0, rec.Close())
		log.Printf("%d events, %d lost", rec.Stats().Samples, rec.Stats().Lost)
	} else {
		out := must(os.OpenFile(*file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)) // it may be confidential
		rec := must(flight.Open(events, flight.Options{MinAge: *age}))            // the kernel keeps the newest events
		begin()
		<-ctx.Done() // nothing reads meanwhile
		snap := must(rec.Snapshot(context.Background()))
		must(snap.WriteTo(out))
		must(0, out.Close())
		log.Printf("%d events, which are all of the last %v", snap.Len(), snap.Age())
	}
	log.Printf("now try: perf script -i %s, or recorder -replay %[1]s", *file)
}

var lives = perfbuf.NewDecoder[struct { // what the programs output, as in recorder.bpf.c
	What      [8]byte
	PID, Code int32
	File      [48]byte
}]()

type event struct { // as -json prints it
	Time uint64 `json:"time_ns"`
	CPU  int    `json:"cpu"`
	Kind string `json:"kind"`
	Len  int    `json:"len"`
	Lost uint64 `json:"lost,omitempty"`
	Text string `json:"text"`
}

type summary struct {
	Events     int    `json:"events"`
	Lost       uint64 `json:"lost"`
	OutOfOrder int    `json:"out_of_order"`
	First      uint64 `json:"first_ns"` // times of the first and the last event
	Last       uint64 `json:"last_ns"`
	Since      uint64 `json:"complete_since_ns"` // from then on a snapshot has every event
}

// replay prints the events of a file. It needs no root.
func replay(ctx context.Context, file string, asJSON bool) {
	stream := must(must(perfdata.Open(file, perfdata.ReplayOptions{})).Stream(perfbuf.StreamOptions{}))
	show := func(object any, text string) error {
		if asJSON {
			return json.NewEncoder(os.Stdout).Encode(object)
		}
		_, err := fmt.Println(text)
		return err
	}
	since, _, err := perfdata.Times(file)
	must(0, err)
	s := summary{Since: since}
	err = stream.Run(ctx, func(ev perfbuf.Event) error {
		e := event{ev.Time(), ev.CPU(), ev.Kind().String(), len(ev.Bytes()), ev.Lost(), ev.String()}
		if l, ok := lives.Decode(ev); ok && unix.ByteSliceToString(l.What[:]) == "exec" {
			e.Text = fmt.Sprintf("%d executes %s", l.PID, unix.ByteSliceToString(l.File[:]))
		} else if ok {
			e.Text = fmt.Sprintf("%d exits with %d", l.PID, l.Code)
		}
		if s.First == 0 {
			s.First = e.Time
		}
		if e.Time < s.Last {
			s.OutOfOrder++
		}
		if ev.Kind() == perfbuf.KindSample {
			s.Events++
		}
		s.Last, s.Lost = max(s.Last, e.Time), s.Lost+e.Lost
		return show(e, fmt.Sprintf("%11.6f  cpu %-3d %s", float64(e.Time-s.First)/1e9, e.CPU, e.Text))
	})
	must(0, show(map[string]summary{"summary": s}, fmt.Sprintf("%d events, %d lost, %d out of order", s.Events, s.Lost, s.OutOfOrder)))
	if err != io.EOF { // a file that was cut, say
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
