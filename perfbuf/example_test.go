package perfbuf_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
)

// Open the rings, read all CPUs as one stream in time order, and stop after three events.
func Example() {
	// A simulated kernel. With a real one, it is perfbuf.Open(mapFD, perfbuf.Options{}).
	kernel := perfbuftest.New(perfbuftest.Options{CPUs: 2, RealTime: true})
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

	// What BPF programs do with bpf_perf_event_output.
	kernel.Output(1, []byte("fork"))
	kernel.Advance(time.Millisecond)
	kernel.Output(0, []byte("exec"))
	kernel.Advance(time.Millisecond)
	kernel.Output(1, []byte("exit"))

	n := 0
	for ev, err := range stream.Events(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("CPU %d: %s\n", ev.CPU(), ev.Bytes())
		if n++; n == 3 {
			break
		}
	}
	// Output:
	// CPU 1: fork
	// CPU 0: exec
	// CPU 1: exit
}

// The file descriptor is that of a loaded map of type BPF_MAP_TYPE_PERF_EVENT_ARRAY: Map.FD() in
// cilium/ebpf, BPFMap.FileDescriptor() in libbpfgo. Open before you attach programs: without rings,
// their outputs fail.
func ExampleOpen() {
	var mapFD int

	reader, err := perfbuf.Open(mapFD, perfbuf.Options{RingBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()

	stream, err := reader.Stream(perfbuf.StreamOptions{}) // all CPUs, in order of time
	if err != nil {
		log.Fatal(err)
	}
	err = stream.Run(context.Background(), func(ev perfbuf.Event) error {
		fmt.Println(ev)
		return nil
	})
	log.Print(err)
}

// A process may give its privileges up once the rings are open.
func ExampleOpen_dropPrivileges() {
	var mapFD, uid, gid int

	reader, err := perfbuf.Open(mapFD, perfbuf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	// Make the stream and attach programs here, then become another user: all threads do, which
	// capset(2) would not.
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
		log.Fatal(err)
	}
}

// Sizes are rounded up to what the kernel takes, and zero values become defaults.
func ExampleReader_Options() {
	kernel := perfbuftest.New(perfbuftest.Options{CPUs: 4})
	reader, err := kernel.Open(perfbuf.Options{RingBytes: 100_000, CPUs: []int{0, 2}})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()

	opts := reader.Options()
	fmt.Println(opts.CPUs, opts.RingBytes, opts.Wakeup.PollInterval)
	// Output: [0 2] 131072 5ms
}

// LanesFD has BPF programs count their own outputs. Stats then also covers those that the kernel
// refuses without counting them. Programs call perfbuf_output of bpf/perfbuf_output.h in place of
// bpf_perf_event_output.
func ExampleOptions_outputsFD() {
	var eventsFD, lanesFD int // of the maps events and lanes

	reader, err := perfbuf.Open(eventsFD, perfbuf.Options{
		LanesFD: lanesFD,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()

	all := reader.Stats().Outputs.Total()
	fmt.Printf("%d outputs: %d written, %d found a full ring, %d found no ring\n",
		all.Attempted, all.Written, all.Full, all.NoRing)
}

// execEvent is the Go twin of the BPF program's struct:
//
//	struct exec_event {
//		__u32 pid;
//		char comm[16];
//	};
type execEvent struct {
	PID  uint32
	Comm [16]byte
}

var execEvents = perfbuf.NewDecoder[execEvent]()

// A Decoder reads payloads as a struct. All loops over a batch, with each value and its event: a
// loss has a zero value.
func ExampleDecoder() {
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
	output(kernel, execEvent{PID: 4711, Comm: [16]byte{'b', 'a', 's', 'h'}})
	output(kernel, execEvent{PID: 4712, Comm: [16]byte{'l', 's'}})

	err = stream.ForEachBatch(func(b *perfbuf.Batch) error {
		for exec, ev := range execEvents.All(b.Events()) {
			if ev.Kind() == perfbuf.KindSample {
				fmt.Printf("CPU %d: %d %s\n", ev.CPU(), exec.PID, bytes.TrimRight(exec.Comm[:], "\x00"))
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// CPU 0: 4711 bash
	// CPU 0: 4712 ls
}

// output stands in for the BPF program.
func output(kernel *perfbuftest.Kernel, exec execEvent) {
	payload, err := binary.Append(nil, binary.NativeEndian, exec)
	if err != nil {
		log.Fatal(err)
	}
	kernel.Output(0, payload)
}
