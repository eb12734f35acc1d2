package simulate

import (
	"math/rand/v2"
	"syscall"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/internal/workload"
)

// kernel drives the CPUs of a ringtest.Kernel step by step. Its random numbers decide every step;
// only a full ring makes it depend on the tails. With large enough rings, the same seed makes the
// same records however the reader behaves.
type kernel struct {
	*ringtest.Kernel
	rnd    *rand.Rand
	clock  uint64 // the true time, in ns
	skew   uint64 // how far a CPU's reading may lag behind it
	cpus   []*cpu
	to     []*source // the maps that programs output to
	sleep  []*sleeper
	truth  *truth
	mutant Mutant
	steps  int
	last   int  // step at which the programs are detached
	stop   bool // no new programs and outputs
	nextID uint64

	// This seed's workload.
	interrupts int // one step in this many begins an interrupt, if it can
	preempts   int // likewise for preemptions
	largest    int // payload
	burst      int // outputs of a program
	stalls     int // steps in 65536 that take tens of ms
}

// cpu is a CPU and its work.
type cpu struct {
	id        int
	stack     []*program // the last one runs
	preempted []*program
	mood      mood
	lasts     int // steps until the mood changes
	dead      bool
}

type mood int

const (
	idle mood = iota
	trickling
	busy
	bursting
	moods
)

type program struct {
	*ringtest.Program
	time   uint64  // its latest reading of the clock
	read   bool    // it has read the clock
	left   int     // outputs to come
	record *record // its output to a perf ring
	to     *source // the source of that ring
	output *output // or its output to a ring buffer
}

func newKernel(s Setup, rnd *rand.Rand) *kernel {
	k := &kernel{
		rnd: rnd, clock: 1 << 40, skew: s.Skew, mutant: s.Mutant,
		interrupts: 4 + rnd.IntN(40),
		preempts:   3 + rnd.IntN(20),
		largest:    1 + rnd.IntN(200),
		burst:      4 << rnd.IntN(5),
		stalls:     1 << rnd.IntN(8),
	}
	if !s.Abandon {
		k.last = s.Steps
	}
	k.truth = newTruth(s, k)
	k.Kernel = ringtest.NewKernel(s.CPUs, func(int) uint64 { return k.read() })
	k.Settled = k.settled
	for i := range s.CPUs {
		// A CPU that never does anything must not matter.
		c := &cpu{id: i, mood: busy, dead: i > 0 && rnd.IntN(6) == 0 || i >= s.CPUs-s.Idle}
		k.cpus = append(k.cpus, c)
	}
	return k
}

// read is a CPU's reading of the clock. Readings differ, and some lag by the full skew.
func (k *kernel) read() uint64 {
	behind := k.rnd.Uint64N(k.skew + 1)
	if behind&7 == 0 {
		behind = k.skew
	}
	return k.clock - behind
}

// step advances the clock and makes one step of one CPU.
func (k *kernel) step() {
	if k.steps++; k.steps == k.last {
		k.stop = true
	}
	k.clock += k.elapse()
	k.sleepers()
	c := k.cpus[k.rnd.IntN(len(k.cpus))]
	if c.lasts--; c.lasts < 0 {
		c.mood = mood(k.rnd.IntN(int(moods)))
		c.lasts = k.rnd.IntN(1 << (4 + k.rnd.IntN(8)))
	}
	if len(c.stack) == 0 {
		k.wake(c)
		return
	}
	p := c.stack[len(c.stack)-1]
	switch {
	case !k.stop && p.Context() < ringtest.NMI && k.rnd.IntN(k.interrupts) == 0:
		in := p.Context() + 1 + ringtest.Context(k.rnd.IntN(int(ringtest.NMI-p.Context())))
		k.begin(c, k.BeginIn(c.id, in))
	case p.record != nil:
		k.output(c, p)
	case p.output != nil:
		if p.Context() == ringtest.Task && k.rnd.IntN(k.preempts) == 0 { // maybe in a reservation
			k.preempt(c, p)
			return
		}
		if !k.advance(p.output, c.id) {
			p.output = nil
		}
	case !p.read: // the first step of a program reads the clock
		p.time, p.read = k.read(), true
	case p.Context() == ringtest.Task && k.rnd.IntN(k.preempts) == 0:
		k.preempt(c, p)
	case p.left == 0 || k.stop:
		p.End()
		c.stack = c.stack[:len(c.stack)-1]
	default:
		if k.rnd.IntN(2) == 0 {
			p.time = k.read()
		}
		p.left--
		k.prepare(c, p)
	}
}

func (k *kernel) preempt(c *cpu, p *program) {
	p.Preempt()
	c.stack = c.stack[:0]
	c.preempted = append(c.preempted, p)
}

// elapse is how long a step takes: often nothing, so that times are equal, and now and then tens of
// ms, as if a hypervisor did not run us.
func (k *kernel) elapse() uint64 {
	switch r := k.rnd.IntN(1 << 16); {
	case r < k.stalls:
		return k.rnd.Uint64N(80_000_000)
	case r < 1<<14:
		return 0
	case r < 1<<14+1<<8:
		return k.rnd.Uint64N(50_000)
	default:
		return k.rnd.Uint64N(150)
	}
}

// wake lets an idle CPU resume a preempted program, or begin one if its mood allows.
func (k *kernel) wake(c *cpu) {
	if n := len(c.preempted); n > 0 && (k.stop || k.rnd.IntN(3) > 0) {
		i := k.rnd.IntN(n)
		p := c.preempted[i]
		c.preempted = append(c.preempted[:i], c.preempted[i+1:]...)
		p.Resume()
		c.stack = append(c.stack, p)
		return
	}
	if k.stop || c.dead || c.mood == idle || c.mood == trickling && k.rnd.IntN(20) > 0 {
		return
	}
	k.begin(c, k.BeginIn(c.id, ringtest.Context(max(0, k.rnd.IntN(8)-4))))
}

func (k *kernel) begin(c *cpu, p *ringtest.Program) {
	left := k.rnd.IntN(3)
	if c.mood == bursting {
		left = k.rnd.IntN(k.burst)
	}
	c.stack = append(c.stack, &program{Program: p, left: left})
}

// record makes a record with a payload.
func (k *kernel) record(to *source, cpu int, time uint64) *record {
	n := workload.HeaderSize + k.rnd.IntN(k.largest)
	if k.rnd.IntN(256) == 0 {
		n += k.rnd.IntN(1500)
	}
	k.nextID++
	r := k.truth.record()
	r.Payload = workload.Payload{Seq: k.nextID, CPU: cpu, Source: workload.Run, Size: n, Time: time}
	r.to, r.ring, r.sleepy = to, cpu, false
	r.bytes = r.Append(r.bytes[:0])
	return r
}

// prepare begins an output to a random map.
func (k *kernel) prepare(c *cpu, p *program) {
	to := k.to[0]
	if len(k.to) > 1 {
		to = k.to[k.rnd.IntN(len(k.to))]
	}
	r := k.record(to, c.id, p.time)
	if to.bufs != nil {
		p.output = k.begun(r, c.id)
		return
	}
	p.record, p.to = r, to
	p.Array = to.perf.Array
	p.Prepare(r.bytes)
}

// output does the next step of an output. It notes where the output reserves, and whether it
// reports losses within another one.
func (k *kernel) output(c *cpu, p *program) {
	perf := p.to.perf
	ring := perf.Ring(c.id)
	head, pending := ring.Head(), ring.Pending()
	more := p.Step()
	if now := ring.Head(); now != head {
		p.record.off = head - perf.Start
	}
	if ring.Pending() < pending {
		for _, outer := range c.stack[:len(c.stack)-1] {
			if outer.record != nil && outer.to == p.to {
				p.to.losses[c.id].nested()
			}
		}
	}
	if !more {
		p.record = nil
	}
}

// settled records the outcome of an output by the program that runs on the CPU.
func (k *kernel) settled(i int, time uint64, _ []byte, err error) {
	p := k.cpus[i].stack[len(k.cpus[i].stack)-1]
	switch err {
	case nil:
		k.truth.written(p.record, time)
	case syscall.ENOSPC:
		p.to.losses[i].failed(k.clock)
		k.truth.reuse(p.record)
	default:
		k.truth.reuse(p.record)
	}
}

// running reports whether any program is.
func (k *kernel) running() bool {
	for _, c := range k.cpus {
		if len(c.stack)+len(c.preempted) > 0 {
			return true
		}
	}
	return false
}
