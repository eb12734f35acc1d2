package perfbuf_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
)

// Records are copies: keep them, or send them to other goroutines.
func ExampleStream_Records() {
	kernel := perfbuftest.New(perfbuftest.Options{})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		log.Fatal(err)
	}
	kernel.Output(0, []byte("open"))
	kernel.Output(0, []byte("read"))

	var kept []perfbuf.Record
	for rec, err := range stream.Records(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		if kept = append(kept, rec); len(kept) == 2 {
			break
		}
	}
	for _, rec := range kept {
		fmt.Printf("%v on CPU %d: %s\n", rec.Kind, rec.CPU, rec.Data)
	}
	// Output:
	// sample on CPU 0: open
	// sample on CPU 0: read
}

// Ctrl-C ends Run. Shutdown then stops the outputs, delivers the events still in the rings, and
// closes the reader.
func ExampleStream_Shutdown() {
	kernel := perfbuftest.New(perfbuftest.Options{})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		log.Fatal(err)
	}
	kernel.Output(0, []byte("open"))
	kernel.Output(0, []byte("read"))
	kernel.Output(1, []byte("exit"))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	handle := func(ev perfbuf.Event) error {
		fmt.Printf("%s\n", ev.Bytes())
		stop() // stands in for Ctrl-C
		return nil
	}

	if err := stream.Run(ctx, handle); !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	fmt.Println("interrupted")
	if err := stream.Shutdown(context.Background(), handle); err != nil {
		log.Fatal(err)
	}
	// Output:
	// open
	// interrupted
	// read
	// exit
}

// When a ring is full, outputs fail. The next one that succeeds reports how many, just before
// itself.
func ExampleEvent_Lost() {
	kernel := perfbuftest.New(perfbuftest.Options{CPUs: 1})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		log.Fatal(err)
	}
	for kernel.Output(0, make([]byte, 60)) == nil { // until the ring is full: this one is lost
	}
	kernel.Output(0, make([]byte, 60)) // and so is this one

	handle := func(ev perfbuf.Event) error {
		switch ev.Kind() {
		case perfbuf.KindLost:
			fmt.Println("lost", ev.Lost())
		case perfbuf.KindSample:
			if len(ev.Bytes()) == 4 {
				fmt.Printf("got %s\n", ev.Bytes())
			}
		}
		return ev.Err() // of KindCorrupt, otherwise nil
	}
	if err := stream.ForEach(handle); err != nil {
		log.Fatal(err)
	}
	kernel.Output(0, []byte("more"))
	if err := stream.ForEach(handle); err != nil {
		log.Fatal(err)
	}
	// Output:
	// lost 2
	// got more
}

// After Close, the counts of each ring add up to what the programs tried to output.
func ExampleReader_Stats() {
	kernel := perfbuftest.New(perfbuftest.Options{CPUs: 1})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		log.Fatal(err)
	}
	attempts := uint64(0)
	for full := false; !full; attempts++ {
		full = kernel.Output(0, make([]byte, 60)) != nil
	}
	n := 0
	if err := stream.ForEach(func(perfbuf.Event) error {
		if n++; n == 10 {
			return perfbuf.ErrStop
		}
		return nil
	}); err != nil {
		log.Fatal(err)
	}
	reader.Close()
	<-reader.Done()

	total := reader.Stats().Total()
	fmt.Println("samples:", total.Samples, "lost:", total.Lost)
	fmt.Println("adds up:", total.Samples+total.Dropped+total.Lost == attempts)
	// Output:
	// samples: 10 lost: 1
	// adds up: true
}

// Flush asks for everything that the rings hold now. An event of KindFlushed says that all of it
// has been delivered.
func ExampleStream_Flush() {
	kernel := perfbuftest.New(perfbuftest.Options{})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		log.Fatal(err)
	}
	kernel.Output(0, []byte("open"))
	kernel.Output(1, []byte("read"))

	if err := stream.Flush(); err != nil { // from any goroutine
		log.Fatal(err)
	}
	err = stream.Run(context.Background(), func(ev perfbuf.Event) error {
		if ev.Kind() == perfbuf.KindFlushed {
			fmt.Println("flushed")
			return perfbuf.ErrStop
		}
		fmt.Printf("%s\n", ev.Bytes())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// open
	// read
	// flushed
}

// Fold carries a value from event to event: here the bytes of payload per CPU.
func ExampleFold() {
	kernel := perfbuftest.New(perfbuftest.Options{})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		log.Fatal(err)
	}
	kernel.Output(0, []byte("open"))
	kernel.Output(1, []byte("sendmsg[64B]"))
	kernel.Output(0, []byte("read"))

	bytes, err := perfbuf.Fold(stream, map[int]int{}, func(bytes map[int]int, ev perfbuf.Event) (map[int]int, error) {
		bytes[ev.CPU()] += len(ev.Bytes())
		return bytes, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes)
	// Output: map[0:8 1:12]
}

// Decode reads one event. It refuses losses, corrupt memory and payloads that are too short.
func ExampleDecoder_Decode() {
	pids := perfbuf.NewDecoder[uint32]()
	kernel := perfbuftest.New(perfbuftest.Options{})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		log.Fatal(err)
	}
	kernel.Output(0, binary.NativeEndian.AppendUint32(nil, 4711))

	err = stream.ForEach(func(ev perfbuf.Event) error {
		if pid, ok := pids.Decode(ev); ok {
			fmt.Println("pid", pid)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: pid 4711
}

// A Record is a slog.LogValuer: a group, with the payload's length in place of its bytes.
func ExampleRecord_LogValue() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{} // the log's own time, which differs from run to run
			}
			return a
		},
	}))
	logger.Info("event", "ev", perfbuf.Record{Kind: perfbuf.KindSample, CPU: 3, Time: 3_600_000_000_000, Data: []byte("open")})
	logger.Warn("event", "ev", perfbuf.Record{Kind: perfbuf.KindLost, CPU: 3, Time: 3_600_000_000_000, Lost: 12})
	// Output:
	// level=INFO msg=event ev.kind=sample ev.cpu=3 ev.time=3600000000000 ev.len=4
	// level=WARN msg=event ev.kind=lost ev.cpu=3 ev.time=3600000000000 ev.lost=12 ev.after=0
}
