package perfbuf_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
)

// An interrupt outputs in the middle of another program's output. Its event is later, yet lies
// first in the ring. An ordered stream goes by the events' times, within a CPU as well as across
// CPUs. The default mode, Exact, proves that nothing older can still come. Drain delivers the rest
// after programs are detached.
func ExampleReader_Stream() {
	kernel := perfbuftest.New(perfbuftest.Options{})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()

	start := kernel.Now()
	program := kernel.Begin(1)
	program.Prepare([]byte("exec")) // takes the event's time
	kernel.Advance(time.Microsecond)
	kernel.Output(1, []byte("intr"))
	kernel.Advance(time.Microsecond)
	kernel.Output(0, []byte("exit"))
	program.Reserve() // makes room in the ring
	program.Copy()
	program.Publish()
	program.End()

	err = stream.Drain(context.Background(), func(ev perfbuf.Event) error {
		fmt.Printf("%v CPU %d: %s\n", time.Duration(ev.Time()-start), ev.CPU(), ev.Bytes())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0s CPU 1: exec
	// 1µs CPU 1: intr
	// 2µs CPU 0: exit
}

// Slack holds each event for a fixed time. It needs no proof and gives none: a program that takes
// longer than that, here because its virtual CPU was stopped, outputs an event that is marked Late.
func ExampleSlack() {
	kernel := perfbuftest.New(perfbuftest.Options{})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Slack(10 * time.Millisecond)})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	show := func(ev perfbuf.Event) error {
		fmt.Printf("%s, late: %v\n", ev.Bytes(), ev.Late())
		return nil
	}

	slow := kernel.Begin(1)
	slow.Prepare([]byte("slow")) // takes the event's time
	kernel.Advance(time.Millisecond)
	kernel.Output(0, []byte("fast"))
	kernel.Advance(20 * time.Millisecond)
	if err := stream.ForEach(show); err != nil {
		log.Fatal(err)
	}

	slow.Reserve() // makes room in the ring
	slow.Copy()
	slow.Publish()
	slow.End()
	if err := stream.ForEach(show); err != nil {
		log.Fatal(err)
	}
	// Output:
	// fast, late: false
	// slow, late: true
}

// A consumer that puts several streams together, or writes windows of time, has to know up to when
// each is complete, also when nothing happens.
func ExampleStream_Watermark() {
	kernel := perfbuftest.New(perfbuftest.Options{RealTime: true})
	reader, err := kernel.Open(perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{FlushEvery: 10 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	kernel.Output(1, []byte("exec"))
	since := kernel.Now()

	markers := 0
	err = stream.Run(context.Background(), func(ev perfbuf.Event) error {
		switch ev.Kind() {
		case perfbuf.KindSample:
			fmt.Printf("%s, complete: %v\n", ev.Bytes(), stream.Watermark() >= since)
		case perfbuf.KindFlushed:
			fmt.Println("marker, complete:", ev.Time() >= since)
			if markers++; markers == 2 {
				return perfbuf.ErrStop
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// exec, complete: false
	// marker, complete: true
	// marker, complete: true
}
