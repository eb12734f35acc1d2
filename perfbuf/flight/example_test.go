package flight_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
)

// Print the events of the ten seconds before SIGUSR1, and of one second after it.
func Example() {
	var mapFD int // of a BPF_MAP_TYPE_PERF_EVENT_ARRAY: a program is loaded and attached already
	recorder, err := flight.Open(mapFD, flight.Options{MaxBytes: 64 << 20, MinAge: 11 * time.Second})
	if err != nil {
		log.Fatal(err) // the missing requirement, and how to meet it
	}
	defer recorder.Close()

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	for range signals {
		time.Sleep(time.Second)
		snapshot, err := recorder.Snapshot(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d events of the last %v\n", snapshot.Len(), snapshot.Age())
		for event := range snapshot.Events() {
			fmt.Println(event.Time(), event.CPU(), event.Bytes())
		}
		snapshot.Release()
	}
}

// Print the newest events of a perf event array and of a BPF ring buffer, in one order.
func ExampleMerge() {
	var arrayFD int // of a BPF_MAP_TYPE_PERF_EVENT_ARRAY
	var mapFD int   // of a BPF_MAP_TYPE_RINGBUF with BPF_F_RB_OVERWRITE: payloads have a time at 8
	array, err := flight.Open(arrayFD, flight.Options{Name: "array"})
	if err != nil {
		log.Fatal(err)
	}
	defer array.Close()
	ring, err := flight.Open(mapFD, flight.Options{Name: "ring", Time: perfbuf.PayloadTime(8)})
	if err != nil {
		log.Fatal(err)
	}
	defer ring.Close()

	var snapshots []*flight.Snapshot
	for _, recorder := range []*flight.Recorder{array, ring} {
		snapshot, err := recorder.Snapshot(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		snapshots = append(snapshots, snapshot)
	}
	for event := range flight.Merge(snapshots...).Events() {
		fmt.Println(event.Source(), event.Time(), event.Bytes())
	}
}
