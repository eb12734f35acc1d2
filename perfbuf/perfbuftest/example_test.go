package perfbuftest_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
)

// A function that handles events, and its result for one event.
func Example() {
	handle := func(ev perfbuf.Event) error {
		if ev.Kind() == perfbuf.KindSample {
			fmt.Printf("CPU %d: pid %d\n", ev.CPU(), binary.NativeEndian.Uint32(ev.Bytes()))
		}
		return nil
	}

	k := perfbuftest.New(perfbuftest.Options{})
	r := must(k.Open(perfbuf.Options{}))
	defer r.Close()
	stream := must(r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()}))
	check(k.Output(1, binary.NativeEndian.AppendUint32(nil, 4711)))
	check(stream.ForEach(handle))
	// Output: CPU 1: pid 4711
}

// Outputs to a full ring fail, and the next one that fits brings the news.
func ExampleKernel_Output_loss() {
	k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
	r := must(k.Open(perfbuf.Options{RingBytes: 4096}))
	defer r.Close()
	stream := must(r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()}))
	failed := 0
	for range 40 {
		if k.Output(0, make([]byte, 100)) != nil { // syscall.ENOSPC
			failed++
		}
	}
	n := 0
	check(stream.ForEach(func(perfbuf.Event) error { n++; return nil }))
	fmt.Println(n, "fitted,", failed, "did not")

	check(k.Output(0, []byte("now")))
	check(stream.ForEach(func(ev perfbuf.Event) error {
		if ev.Kind() == perfbuf.KindLost {
			fmt.Println("lost:", ev.Lost())
		} else {
			fmt.Printf("%.3s\n", ev.Bytes())
		}
		return nil
	}))
	// Output:
	// 34 fitted, 6 did not
	// lost: 6
	// now
}

// An ordered stream goes by the times of events, not by the CPUs' numbers.
func ExampleKernel_Advance() {
	k := perfbuftest.New(perfbuftest.Options{})
	r := must(k.Open(perfbuf.Options{}))
	defer r.Close()
	stream := must(r.Stream(perfbuf.StreamOptions{}))
	defer stream.Close()

	start := k.Now()
	check(k.Output(1, []byte("open")))
	k.Advance(time.Millisecond)
	check(k.Output(0, []byte("read")))
	k.Advance(time.Millisecond)
	check(k.Output(1, []byte("shut")))

	check(stream.Drain(context.Background(), func(ev perfbuf.Event) error {
		fmt.Printf("%v CPU %d: %s\n", time.Duration(ev.Time()-start), ev.CPU(), ev.Bytes()[:4])
		return nil
	}))
	// Output:
	// 0s CPU 1: open
	// 1ms CPU 0: read
	// 2ms CPU 1: shut
}

// A program is interrupted after its event's time was taken and before there is room for it: in the
// ring the interrupt's event, which is later, comes first.
func ExampleKernel_Begin() {
	k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
	r := must(k.Open(perfbuf.Options{}))
	defer r.Close()

	task := k.Begin(0)
	task.Prepare([]byte("task"))
	k.Advance(time.Microsecond)
	check(k.Output(0, []byte("late")))
	check(task.Reserve())
	task.Copy()
	task.Publish()
	task.End()

	stream := must(r.Stream(perfbuf.StreamOptions{}))
	defer stream.Close()
	check(stream.Drain(context.Background(), func(ev perfbuf.Event) error {
		fmt.Printf("%s\n", ev.Bytes())
		return nil
	}))
	fmt.Println("inversions:", r.Stats().Inversions)
	// Output:
	// task
	// late
	// inversions: 1
}

// An output that is too large for a record damages the ring. The reader still reads the intact
// part.
func ExampleProgram_Reserve_oversize() {
	k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
	r := must(k.Open(perfbuf.Options{}))
	defer r.Close()
	stream := must(r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()}))
	check(k.Output(0, []byte("before")))
	check(k.Output(0, make([]byte, 70000)))
	show := func(ev perfbuf.Event) error {
		if ev.Kind() == perfbuf.KindSample {
			fmt.Printf("%.6s\n", ev.Bytes())
		} else {
			fmt.Println(ev.Kind())
		}
		return nil
	}
	check(stream.ForEach(show))
	check(k.Output(0, []byte("behind")))
	check(stream.ForEach(show))
	// Output:
	// before
	// corrupt
	// behind
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
