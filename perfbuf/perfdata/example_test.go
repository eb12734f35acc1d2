package perfdata_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// Record a stream until a context is done, and replay the file.
func Example() {
	// A simulated kernel. With a real one, it is perfbuf.Open(mapFD, perfbuf.Options{}).
	kernel := perfbuftest.New(perfbuftest.Options{CPUs: 2, RealTime: true})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	kernel.Output(1, []byte("fork"))
	kernel.Output(0, []byte("exec"))

	directory, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "events.data")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := recordStream(ctx, reader, file); err != nil {
		log.Fatal(err)
	}
	if err := printRecording(context.Background(), file); err != nil {
		log.Fatal(err)
	}
	// Output:
	// CPU 1: fork
	// CPU 0: exec
}

func recordStream(ctx context.Context, reader *perfbuf.Reader, file string) error {
	stream, err := reader.Stream(perfbuf.StreamOptions{})
	if err != nil {
		return err
	}
	recorder, err := perfdata.Create(file, perfdata.Options{})
	if err != nil {
		return err
	}
	if err := recorder.Run(ctx, stream); ctx.Err() == nil { // it ends with ctx
		return errors.Join(err, recorder.Close())
	}
	err = stream.Drain(context.Background(), recorder.Record) // the remaining events
	return errors.Join(err, recorder.Close())
}

func printRecording(ctx context.Context, file string) error {
	reader, err := perfdata.Open(file, perfdata.ReplayOptions{})
	if err != nil {
		return err
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{})
	if err != nil {
		return err
	}
	err = stream.Run(ctx, func(ev perfbuf.Event) error {
		fmt.Printf("CPU %d: %s\n", ev.CPU(), ev.Bytes()[:4])
		return nil
	})
	if err == io.EOF { // the end of the recording
		return nil
	}
	return err
}

// Several recordings, or several events of one, in one order.
func Example_merge() {
	var one, other string // paths

	execs, err := perfdata.Open(one, perfdata.ReplayOptions{Reader: perfbuf.Options{Name: "execs"}})
	if err != nil {
		log.Fatal(err)
	}
	packets, err := perfdata.Open(other, perfdata.ReplayOptions{Reader: perfbuf.Options{Name: "packets"}})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := perfbuf.Merge(perfbuf.StreamOptions{}, execs, packets)
	if err != nil {
		log.Fatal(err)
	}
	err = stream.Run(context.Background(), func(ev perfbuf.Event) error {
		fmt.Println(ev.Source(), ev)
		return nil
	})
	log.Print(err)
}

// Another host's recording, whose head and records come over a network.
func ExampleLive() {
	feed := func(head, records []byte, through uint64, offset int64, clockError uint64) error {
		host := perfdata.NewLive("web-1")
		if err := host.Head(head); err != nil { // of Recorder.Head, or what a RoundWriter got first
			return err
		}
		reader, err := host.Open("execs", perfbuf.Options{Name: "web-1"})
		if err != nil {
			return err
		}
		defer reader.Close()
		err = host.Feed(records, perfdata.Round{Through: through, Offset: offset, Error: clockError})
		return err
	}
	fmt.Println(feed([]byte("no head"), nil, 0, 0, 0))
	// Output: perfdata: web-1: its head has no event that can be replayed
}
