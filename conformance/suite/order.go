package suite

import (
	"time"

	"github.com/ringfold/ringfold/conformance/wire"
)

var orderScenarios = []entry{
	{"order/per-cpu", "orderPerCPU", orderPerCPU},
	{"order/alternating", "orderAlternating", orderAlternating(1, "pages=16")},
	{"order/alternating-bursts", "orderAlternating", orderAlternating(50, "pages=64")},
	{"order/sizes", "orderSizes", orderSizes},
	{"order/quiet-cpu", "orderQuietCPU", orderQuietCPU},
	{"order/waking-cpu", "orderWakingCPU", orderWakingCPU},
	{"order/clock", "orderClock", orderClock},
	{"order/flush", "orderFlush", orderFlush},
	{"order/stopped", "orderStopped", orderStopped},
	{"order/slow-callback", "orderSlowCallback", orderSlowCallback},
	{"order/loss", "orderLoss", orderLoss},
	{"order/maps", "orderMaps", orderMaps("perf", "perf")},
	{"order/map-and-ringbuf", "orderMaps", orderMaps("perf", "ringbuf")},
}

// script outputs events one after the other, and knows their order.
type script struct {
	t    *T
	want []place
	next map[[2]int]uint64
}

// place names an event.
type place struct {
	source, cpu int
	seq         uint64
}

func (t *T) script() *script { return &script{t: t, next: map[[2]int]uint64{}} }

// output outputs, after all that was output before. Flags are those of bpf_ringbuf_output.
func (s *script) output(subject *Subject, source, cpu, count, size int, flags ...uint64) {
	s.t.Output(subject.sources[source], cpu, count, size, flags...)
	key := [2]int{source, cpu}
	for range count {
		s.want = append(s.want, place{source, cpu, s.next[key]})
		s.next[key]++
	}
}

// check compares the delivered order. Events that were lost may be missing.
func (s *script) check(subject *Subject) {
	rank := make(map[place]int, len(s.want))
	for i, p := range s.want {
		rank[p] = i
	}
	subject.With(func(st *State) {
		last, lastPlace := -1, place{}
		for _, item := range st.Items {
			if item.Type != wire.Event {
				continue
			}
			p := place{item.Source, item.Payload.CPU, item.Payload.Seq}
			if rank[p] < last {
				s.t.Failf("event %d of CPU %d was output before event %d of CPU %d, and comes after it", p.seq, p.cpu, lastPlace.seq, lastPlace.cpu)
			}
			last, lastPlace = rank[p], p
		}
	})
}

// checkTimes checks that the times which the reader tells never decrease.
func (s *Subject) checkTimes() {
	s.Check()
	s.With(func(st *State) {
		var last Item
		for _, item := range st.Items {
			if item.Type != wire.Event || item.Time == 0 {
				continue
			}
			if item.Time < last.Time {
				s.t.Failf("an event of CPU %d comes %.1f µs too late: after one of CPU %d with a later time",
					item.Payload.CPU, float64(last.Time-item.Time)/1000, last.Payload.CPU)
			}
			last = item
		}
		if last.Time == 0 {
			s.t.Cannotf("the reader tells no times")
		}
	})
}

// orderPerCPU: Events of one CPU come in the order in which they were output.
//
// Expected: whatever a reader does with several CPUs, what one CPU does one after the other comes in that order, and nothing twice.
//
// Kernel: a perf event array has one ring per CPU. Only that CPU writes to it, and data_head covers a prefix of whole records
// (perf_output_put_handle), so a reader that walks from data_tail to data_head finds them in order.
//
// Set-up: 3,000 events on each CPU, in bursts that fit the ring.
//
// Check: the numbers that each CPU gave its events increase by one.
func orderPerCPU(t *T) {
	source, s := t.StartPerf("pages=16")
	for range 15 {
		t.OutputOnSome(source, 200, 64)
		s.Settle()
	}
	s.Account()
}

// orderAlternating: What happens on one CPU after something on another one is delivered after it.
//
// Expected: a program that reconstructs what happened (a process started here, opened a file there) needs events in the order in which
// they happened. Without that it has to buffer and sort them itself, and to guess how long to wait.
//
// Kernel: rings of different CPUs have no order between them; each record may carry its time (PERF_SAMPLE_TIME), and with
// use_clockid and CLOCK_MONOTONIC times of all CPUs compare.
//
// Set-up: one CPU outputs, then another one, each after the output before has returned, so their order is certain. Single events in
// order/alternating, bursts of 50 in order/alternating-bursts.
//
// Check: events are delivered in just this order.
//
// Known: most readers deliver ring by ring and leave order to their users: aquasecurity/tracee#1113, iovisor/bcc#2299, h2o/h2o#2800.
func orderAlternating(burst int, settings ...string) func(*T) {
	return func(t *T) {
		a, b := t.Two()
		s := t.Start(t.Perf(), append(settings, "order=time")...)
		script := t.script()
		for round := range 40 {
			for range 5 {
				script.output(s, 0, a, burst, 64)
				script.output(s, 0, b, burst, 64)
			}
			if round%4 == 3 {
				s.Settle()
			}
		}
		s.Settle()
		script.check(s)
		s.checkTimes()
	}
}

// orderSizes: Events of very different sizes come in order, too.
//
// Expected: an event of 4,000 bytes is no reason to be later than one of 24.
//
// Kernel: a record is published as a whole, when it has been copied; until then data_head does not cover it.
//
// Set-up: two CPUs alternate between small and large events.
//
// Check: the delivered order is that of the outputs.
func orderSizes(t *T) {
	a, b := t.Two()
	s := t.Start(t.Perf(), "pages=64", "order=time")
	script := t.script()
	for i := range 200 {
		script.output(s, 0, a, 1, []int{24, 4000, 333, 1024}[i%4])
		script.output(s, 0, b, 1, []int{4000, 24, 48, 2000}[i%4])
		if i%20 == 19 {
			s.Settle()
		}
	}
	script.check(s)
	s.checkTimes()
}

// orderQuietCPU: A CPU that outputs nothing does not hold up the others.
//
// Expected: most CPUs are quiet most of the time. A stream in order must not wait for something to come from each.
//
// Kernel: an empty ring says nothing of what is under way on its CPU. An RCU grace period does: programs run inside read sections.
//
// Set-up: one CPU outputs single events; all others are silent.
//
// Check: each event is delivered before the next one is output.
func orderQuietCPU(t *T) {
	source, s := t.StartPerf("pages=16", "order=time")
	for range 30 {
		t.Output(source, t.CPUs()[0], 1, 64)
		s.Settle()
	}
	s.checkTimes()
}

// orderWakingCPU: A CPU that has been silent for long comes in its place as soon as it outputs.
//
// Expected: that a CPU has been silent does not mean that its next event may be late.
//
// Kernel: as in order/quiet-cpu.
//
// Set-up: CPU A outputs at a steady rate. CPU B is silent, outputs a few events, and is silent again, five times.
//
// Check: the delivered order is that of the outputs.
func orderWakingCPU(t *T) {
	a, b := t.Two()
	s := t.Start(t.Perf(), "pages=64", "order=time")
	script := t.script()
	for range 5 {
		for range 40 {
			script.output(s, 0, a, 2, 64)
			time.Sleep(time.Millisecond)
		}
		for range 5 {
			script.output(s, 0, b, 1, 64)
			script.output(s, 0, a, 1, 64)
		}
	}
	s.Settle()
	script.check(s)
	s.checkTimes()
}

// orderClock: The times that a reader tells are CLOCK_MONOTONIC, and those of the events.
//
// Expected: a time can be compared with those that programs take (bpf_ktime_get_ns) and with user space's clock_gettime.
//
// Kernel: perf's default clock is local to a CPU; perf_event_attr.use_clockid with CLOCK_MONOTONIC makes it the same everywhere.
// perf_prepare_sample reads it within the output.
//
// Set-up: single events on each CPU. Payloads carry the time just before the output.
//
// Check: each told time lies between its payload's time and the time at which the output had returned, give or take 10 µs.
func orderClock(t *T) {
	source, s := t.StartPerf("pages=16")
	var after []uint64
	for range 20 {
		for _, cpu := range t.some() {
			t.Output(source, cpu, 1, 64)
			after = append(after, monotonic())
			s.Settle()
		}
	}
	s.With(func(st *State) {
		for i, item := range st.Items[:min(len(st.Items), len(after))] {
			const error = 10_000
			if item.Time == 0 {
				t.Cannotf("the reader tells no times")
			}
			if item.Time+error < item.Payload.Time || item.Time > after[i]+error {
				t.Failf("an event output between %d and %d ns is said to be of %d", item.Payload.Time, after[i], item.Time)
			}
		}
	})
}

// orderMaps: Events of several maps come in one order.
//
// Expected: tools have several maps: one for each kind of event, or old perf event arrays beside a ring buffer. What happened in
// them happened in one order.
//
// Kernel: a BPF ring buffer has no times of its own; payloads carry them.
//
// Set-up: outputs alternate between two maps and two CPUs: two perf event arrays in order/maps, one and a ring buffer in
// order/map-and-ringbuf.
//
// Check: the delivered order is that of the outputs.
func orderMaps(kinds ...string) func(*T) {
	return func(t *T) {
		a, b := t.Two()
		var sources []*Source
		for _, kind := range kinds {
			sources = append(sources, t.Source(Config{Kind: kind, Bytes: 1 << 18}))
		}
		s := t.StartAll(sources, "pages=64", "order=time")
		script := t.script()
		for i := range 200 {
			script.output(s, i%2, a, 1, 64)
			script.output(s, (i+1)%2, a, 1, 64)
			script.output(s, i%2, b, 1, 64)
			if i%20 == 19 {
				s.Settle()
			}
		}
		script.check(s)
	}
}
