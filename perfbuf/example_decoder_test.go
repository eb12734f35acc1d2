package perfbuf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
)

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
