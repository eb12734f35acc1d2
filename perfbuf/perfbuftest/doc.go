// Package perfbuftest simulates a kernel, so that you can test code that handles events without
// root, BPF, cgo or Linux. It outputs events to a [perfbuf.Reader], with losses, interrupts,
// corrupt memory and clocks of the test's choice.
//
//	k := perfbuftest.New(perfbuftest.Options{})
//	r, err := k.Open(perfbuf.Options{})
//	...
//	stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
//	...
//	k.Output(0, payload) // as a program on CPU 0 does with bpf_perf_event_output
//	err = stream.ForEach(handle)
//
// The rings lie in Go memory. The simulation writes them by the rules of
// kernel/events/ring_buffer.c, and tests compare it with the real kernel. Everything else is
// perfbuf itself.
//
// # Time
//
// The clock stands still until you move it ([Kernel.Advance]) or let it run (Options.RealTime).
// Times are then exact, and a test's result does not depend on its speed. But by a clock that
// stands still, an ordered stream may never deliver an event. So read it with
// [perfbuf.Stream.Drain] or ForEachPending, which use no clock, or advance the clock by more than
// the stream's mode waits for. Test methods that block (Wait, Run, Events, Records) with
// Options.RealTime, in a bubble of testing/synctest, where time costs nothing.
//
// # Programs
//
// [Kernel.Output] runs a whole program. [Kernel.Begin] runs one step by step, so that a test can
// put anything between two steps: other CPUs, interrupts, reads. Calls that wait for programs in a
// real kernel wait for these too: [perfbuf.Reader.Stream] in exact mode, Drain, and an exact
// stream before it delivers. Do not call the first two in the goroutine that has yet to end a
// program.
//
// Unlike on a real kernel, Close of a Reader does not wait for programs, because the goroutine that
// closes may be the one that ends them. An output that is under way then fails with ENOSPC, or
// succeeds and is in no Stats. If counts matter, end programs first. A [Kernel.Output] in another
// goroutine needs no such care.
//
// # What it is not
//
// No system call fails, no CPU is offline, and memory is unlimited. Bytes stay readable after the
// reader is closed. An output that is too large for a record overwrites bytes that may be read at
// that moment, which the race detector rightly reports. Run tests also with the build tag
// perfbuf_poison, which catches use of an event after its return. Batches then hold one event.
package perfbuftest
