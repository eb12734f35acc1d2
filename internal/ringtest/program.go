package ringtest

import (
	"fmt"
	"slices"
	"syscall"
)

// Context is where a program runs. Each may interrupt those before it.
type Context int

// Contexts of a CPU.
const (
	Task Context = iota
	SoftIRQ
	HardIRQ
	NMI
)

func (c Context) String() string {
	return [...]string{"a task", "a softirq", "a hardirq", "an NMI"}[c]
}

// maxOutputs is how many outputs may be under way on a CPU, each within the one before:
// bpf_perf_event_output has memory for so many.
const maxOutputs = 3

// Program is a run of a BPF program, from Begin to End. It may output any number of times, step by
// step or with Step. Only the innermost program on a CPU can act. It panics on anything that the
// kernel cannot do.
type Program struct {
	Array int // which perf event array it outputs to, from 0 on; to be changed between outputs

	cpu   *cpu
	entry *entry
	in    Context
	at    stage
	event *event
	h     Handle
	err   error         // why the output is refused
	ended chan struct{} // made by a grace period that waits for it
}

// stage is how far an output has got.
type stage int

const (
	none stage = iota
	refused
	prepared
	looked
	taken
	reported
	copied
	over // of the program
)

func (s stage) String() string {
	return [...]string{
		"has no output under way", "has had its output refused, which Reserve returns", "has prepared an output and not reserved",
		"has begun to reserve", "has reserved and not reported losses", "has reserved and not copied", "has copied and not published", "has ended",
	}[s]
}

// Begin starts a program on a CPU: as a task if that is idle, otherwise in the context that may
// interrupt what runs there.
func (k *Kernel) Begin(cpu int) *Program {
	c := k.cpu(cpu)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begin(c.next())
}

// BeginIn starts a program in a context, which must be one that may interrupt what runs there.
func (k *Kernel) BeginIn(cpu int, in Context) *Program {
	c := k.cpu(cpu)
	c.mu.Lock()
	defer c.mu.Unlock()
	if next := c.next(); in < next {
		panic(fmt.Sprintf("simulated CPU %d: %v does not interrupt %v", cpu, in, next-1))
	}
	return c.begin(in)
}

// next is the lowest context that may interrupt what runs.
func (c *cpu) next() Context {
	n := len(c.running)
	if n == 0 {
		return Task
	}
	in := c.running[n-1].in
	if in == NMI {
		panic(fmt.Sprintf("simulated CPU %d: a program runs in an NMI, which nothing interrupts: End it first", c.id))
	}
	return in + 1
}

func (c *cpu) begin(in Context) *Program {
	p := &Program{cpu: c, in: in}
	c.running = append(c.running, p)
	return p
}

// Output runs a whole program that outputs once, within what runs on that CPU. It returns nil or
// what bpf_perf_event_output does: syscall.ENOSPC, ENOENT or EBUSY.
func (k *Kernel) Output(cpu int, payload []byte) error {
	c := k.cpu(cpu)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := Program{cpu: c, in: c.next()} // nobody else can see it
	return p.output(payload)
}

// Output does all steps of an output.
func (p *Program) Output(payload []byte) error {
	defer p.lock("Output", none)()
	return p.output(payload)
}

func (p *Program) output(payload []byte) error {
	p.prepare(payload)
	if err := p.reserve(); err != nil {
		return err
	}
	p.copy()
	p.publish()
	return nil
}

// lock takes the CPU, if it is p that runs there and at one of these stages.
func (p *Program) lock(step string, stages ...stage) (unlock func()) {
	p.cpu.mu.Lock()
	var wrong string
	if !slices.Contains(stages, p.at) {
		wrong = fmt.Sprintf("the program %v", p.at)
	} else if n := len(p.cpu.running); n == 0 || p.cpu.running[n-1] != p {
		wrong = "the program does not run: it is preempted, or interrupted by one that has to End first"
	}
	if wrong != "" {
		p.cpu.mu.Unlock()
		panic(fmt.Sprintf("simulated CPU %d: %s: %s", p.cpu.id, step, wrong))
	}
	return p.cpu.mu.Unlock
}

// Prepare begins an output: the helper finds the ring, and the kernel takes the time. If there is
// no ring, or too many outputs are under way, Reserve says so. The payload is used until Copy.
func (p *Program) Prepare(payload []byte) {
	defer p.lock("Prepare", none)()
	p.prepare(payload)
}

func (p *Program) prepare(payload []byte) {
	c := p.cpu
	p.entry = &c.entries[p.Array]
	p.entry.counts.Attempted++
	p.event = p.entry.event
	switch {
	case c.outputs == maxOutputs:
		p.err = syscall.EBUSY
	case p.event == nil:
		p.err = syscall.ENOENT
	default:
		p.h = p.event.Prepare(p.now(), payload)
		p.h.bell = p.entry.bell
		p.at = prepared
		c.outputs++
		return
	}
	p.at = refused
	p.entry.counts.Refused++
	c.settled(0, payload, p.err)
}

func (p *Program) now() uint64 { return p.cpu.kernel.clock(p.cpu.id) }

func (c *cpu) settled(time uint64, payload []byte, err error) {
	if f := c.kernel.Settled; f != nil {
		f(c.id, time, payload, err)
	}
}

// Reserve makes room for the prepared output, or does what Step has left of that. If it returns an
// error the output is over.
func (p *Program) Reserve() error {
	defer p.lock("Reserve", refused, prepared, looked, taken)()
	return p.reserve()
}

func (p *Program) reserve() error {
	for p.at != reported {
		if p.step(); p.at == none {
			return p.err
		}
	}
	return nil
}

// Copy writes the record.
func (p *Program) Copy() {
	defer p.lock("Copy", reported)()
	p.copy()
}

func (p *Program) copy() {
	p.h.Copy()
	p.at = copied
	p.cpu.settled(p.h.time, p.h.payload, nil)
}

// Publish ends the output. Readers see it when the output that it interrupted is published, if any.
func (p *Program) Publish() {
	defer p.lock("Publish", copied)()
	p.publish()
}

func (p *Program) publish() {
	p.event.wake(p.h.Publish())
	p.entry.counts.Written++
	p.done()
}

// done ends an output that was not refused.
func (p *Program) done() {
	p.at = none
	p.h = Handle{} // and with it the payload
	p.cpu.outputs--
}

// Step does the next step of an output, the least that an interrupt can come between: Reserve is
// three of them. It reports whether the output has more.
func (p *Program) Step() (more bool) {
	defer p.lock("Step", refused, prepared, looked, taken, reported, copied)()
	p.step()
	return p.at != none
}

func (p *Program) step() {
	switch p.at {
	case refused:
		p.at = none
	case prepared:
		p.h.Look()
		p.at = looked
	case looked:
		p.take()
	case taken:
		if p.h.report {
			p.h.Report(p.now())
		}
		p.at = reported
	case reported:
		p.copy()
	case copied:
		p.publish()
	}
}

func (p *Program) take() {
	c := p.cpu
	var wake bool
	if p.event.unmapped { // the event no longer has a ring, which the kernel calls full too
		p.h.Publish()
		p.err = syscall.ENOSPC
		p.entry.counts.Refused++
	} else if wake, p.err = p.h.Take(); p.err != nil {
		p.event.wake(wake)
		p.entry.counts.Lost++
	} else {
		p.at = taken
		return
	}
	c.settled(p.h.time, p.h.payload, p.err)
	p.done()
}

// End ends the program.
func (p *Program) End() {
	defer p.lock("End", none)()
	p.at = over
	p.cpu.running = p.cpu.running[:len(p.cpu.running)-1]
	if p.ended != nil {
		close(p.ended)
	}
}

// Preempt takes a program off its CPU, which may begin others, until Resume. Only a task's can be,
// and not during an output, from the time's being taken to the publication.
func (p *Program) Preempt() {
	defer p.lock("Preempt", none)()
	if p.in != Task {
		panic(fmt.Sprintf("simulated CPU %d: Preempt: the program runs in %v, and only a task is preempted", p.cpu.id, p.in))
	}
	p.cpu.running = p.cpu.running[:0] // a task interrupts nothing
	p.cpu.preempted = append(p.cpu.preempted, p)
}

// Resume lets a preempted program run again, on its CPU, which must be idle.
func (p *Program) Resume() {
	c := p.cpu
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.preempted, p)
	if i < 0 {
		panic(fmt.Sprintf("simulated CPU %d: Resume: the program is not preempted", c.id))
	}
	if len(c.running) > 0 {
		panic(fmt.Sprintf("simulated CPU %d: Resume: another program runs: End or Preempt it first", c.id))
	}
	c.preempted = slices.Delete(c.preempted, i, i+1)
	c.running = append(c.running, p)
}

// Context is where the program runs.
func (p *Program) Context() Context { return p.in }

// Outputs reports whether an output is under way: the program cannot end or be preempted.
func (p *Program) Outputs() bool {
	p.cpu.mu.Lock()
	defer p.cpu.mu.Unlock()
	return p.at != none && p.at != over
}
