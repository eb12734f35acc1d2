package perfbuftest

import "github.com/ringfold/ringfold/internal/ringtest"

// Program is a run of a BPF program on a CPU, from [Kernel.Begin] to End, step by step. Between any
// two steps other CPUs may do anything, and on its own CPU others may begin and end: they interrupt
// it, and until they have ended it can do nothing. It may output several times.
//
// A step that a kernel could not do now, such as Publish before Copy, is a panic that says why. A
// Program is for one goroutine at a time.
//
// As long as it has not ended, it is in an RCU read-side critical section: an ordered stream in
// exact mode delivers nothing from after its beginning, Drain waits for it, and so does making an
// exact stream.
type Program struct{ p *ringtest.Program }

// Begin starts a program on a CPU. If one is running there, the new one interrupts it: as a softirq
// if that is a task's, then as a hardirq, then as an NMI. To interrupt an NMI panics.
func (k *Kernel) Begin(cpu int) *Program { return &Program{k.sim.Begin(cpu)} }

// Prepare begins an output: the kernel looks for the CPU's ring and takes the event's time. The
// payload must not change until Copy.
func (p *Program) Prepare(payload []byte) { p.p.Prepare(payload) }

// Reserve makes room for the output in the ring, and for the report of earlier losses, if any: then
// the kernel takes the time anew, and the report and the sample have the same. It returns what
// bpf_perf_event_output would, and an output that has failed is over:
//
//   - syscall.ENOSPC if the ring is full. The ring counts the loss, and reports it with the next
//     output that fits. One byte always stays free.
//   - syscall.ENOENT if the CPU has no ring: none was opened, or the reader is closed.
//   - syscall.EBUSY if three nested outputs are under way on that CPU already.
//
// Like the kernel, it does not refuse a payload that is too large for a record, 65509 bytes or more
// (65517 without time): it makes room for what the 16 bits of a record's length say, and Copy then
// overwrites the ring with all of it.
func (p *Program) Reserve() error { return p.p.Reserve() }

// Copy writes the record into the ring. Up to 7 bytes of padding behind it keep their old contents.
func (p *Program) Copy() { p.p.Copy() }

// Publish ends the output. Readers can see it from then on, or, within an output that it has
// interrupted, when that one is published. It wakes readers as their options ask for.
func (p *Program) Publish() { p.p.Publish() }

// Output is Prepare, Reserve, Copy and Publish.
func (p *Program) Output(payload []byte) error { return p.p.Output(payload) }

// End ends the program.
func (p *Program) End() { p.p.End() }

// Preempt takes a program off its CPU, so that others can begin there that do not interrupt it,
// until [Program.Resume]. Only a task's program is preempted, and not during an output.
func (p *Program) Preempt() { p.p.Preempt() }

// Resume puts a preempted program back on its CPU, which must be idle.
func (p *Program) Resume() { p.p.Resume() }
