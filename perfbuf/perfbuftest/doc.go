// Package perfbuftest is a kernel to test with: it outputs events to a [perfbuf.Reader] without
// root, BPF, cgo or Linux. What handles events in a program, a function of a [perfbuf.Event] or all
// that is behind a Reader or an Ordered stream, can so be tested with losses, interrupts, corrupt
// memory and clocks of the test's choice.
//
//	k := perfbuftest.New(perfbuftest.Options{})
//	r, err := k.Open(perfbuf.Options{})
//	...
//	k.Output(0, payload) // as a program on CPU 0 does with bpf_perf_event_output
//	err = r.ForEach(handle)
//
// The rings lie in Go memory and are written by the rules of kernel/events/ring_buffer.c; tests
// hold them against the real kernel. Everything else is perfbuf itself.
//
// # Time
//
// The clock stands still unless it is told to move ([Kernel.Advance]) or to run
// (Options.RealTime). Times are then exact, and a test's result does not depend on how fast it
// runs. But an ordered stream delivers an event only when its turn has come, and by a clock that
// stands still that may be never: read with [perfbuf.Ordered.Drain] or ForEachPending, which go by no clock,
// or advance the clock by more than what the stream's mode waits for. What waits (Wait, Run,
// Events, Records) is best tested with Options.RealTime, in a bubble of testing/synctest where time
// costs nothing.
//
// # Programs
//
// [Kernel.Output] runs a whole program. [Kernel.Begin] runs one step by step, so that a test can put
// anything between two steps: other CPUs, interrupts, reads. What waits for programs in a real
// kernel waits for these too: [perfbuf.Reader.Ordered] in exact mode, Drain, and an exact stream
// before it delivers. In the goroutine that is to end a program, call none of the first two before
// it has.
//
// Close of a Reader does not wait, as it does on a real kernel: the goroutine that closes may be the one that is to
// end a program. An output that is under way then fails with ENOSPC, or succeeds and is in no Stats. Where
// counts matter, end programs first; a [Kernel.Output] in another goroutine is whole, and needs no care.
//
// # What it is not
//
// There are no system calls that can fail, no offline CPUs, and no limits on memory. Bytes do not
// turn into a fault when the reader is closed. An output that is too large for a record writes over
// what may be read at that moment, which the race detector reports, rightly. Run tests also with the
// build tag perfbuf_poison, which finds those who keep an event's bytes. Batches hold one event then.
package perfbuftest
