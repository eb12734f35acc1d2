package suite

import (
	"fmt"
	"time"
)

var deliveryScenarios = []entry{
	{"delivery/first-event", "deliveryFirst", deliveryFirst},
	{"delivery/trickle", "deliveryTrickle", deliveryTrickle},
	{"delivery/burst-after-idle", "deliveryBurst", deliveryBurst},
	{"delivery/burst-and-straggler", "deliveryStraggler", deliveryStraggler},
	{"delivery/watermark-events", "deliveryWatermark", deliveryWatermark("wakeup_events=8", 8)},
	{"delivery/watermark-bytes", "deliveryWatermark", deliveryWatermark("wakeup_bytes=800", 10)},
	{"delivery/below-watermark", "deliveryBelow", deliveryBelow},
	{"delivery/flush-below-watermark", "deliveryFlush", deliveryFlush},
	{"delivery/flush-empty", "deliveryFlushEmpty", deliveryFlushEmpty},
	{"delivery/flush-under-load", "deliveryFlushLoad", deliveryFlushLoad},
	{"delivery/deadline-empty", "deliveryDeadline", deliveryDeadline},
	{"delivery/deadline-below-watermark", "deliveryDeadlineBelow", deliveryDeadlineBelow},
	{"delivery/stop-under-load", "deliveryStopLoad", deliveryStopLoad},
	{"delivery/stop-while-waiting", "deliveryStopWaiting", deliveryStopWaiting},
	{"delivery/fairness", "deliveryFairness", deliveryFairness},
	{"delivery/slow-callback", "deliverySlow", deliverySlow},
	{"delivery/idle-cpu", "deliveryIdle", deliveryIdle},
	{"delivery/busy-then-idle-cpu", "deliveryBusyIdle", deliveryBusyIdle},
	{"delivery/wakeups", "deliveryWakeups", deliveryWakeups},
	{"delivery/allocations", "deliveryAllocations", deliveryAllocations},
}

// deliveryFirst: A single event is delivered, though nothing follows.
//
// Expected: an event that comes after a while of silence is delivered by itself.
//
// Kernel: with wakeup_events of 1, each record wakes who polls.
//
// Set-up: one event on each CPU, each after the one before has been delivered, with pauses of 50 ms.
//
// Check: it is delivered.
func deliveryFirst(t *T) {
	source, s := t.StartPerf("pages=16")
	for _, cpu := range t.some() {
		sleepMillis(50)
		t.Output(source, cpu, 1, 64)
		s.Settle()
	}
}

// deliveryTrickle: Events that come one at a time are delivered one at a time.
//
// Expected: no event waits for the next one.
//
// Kernel: as delivery/first-event. perf_poll consumes readiness: an event between a reader's last look and its going to sleep needs
// a look at data_head.
//
// Set-up: 200 single events, on all CPUs by turns, the next one as soon as one has been delivered, with and without pauses.
//
// Check: each is delivered before the next is output.
func deliveryTrickle(t *T) {
	source, s := t.StartPerf("pages=16")
	cpus := t.some()
	for i := range 200 {
		t.Output(source, cpus[i%len(cpus)], 1, 64)
		s.Settle()
		if i%20 == 0 {
			sleepMillis(10)
		}
	}
}

// deliveryBurst: After a while of silence, a burst is delivered to its last event.
//
// Expected: the reader wakes at the first and reads all.
//
// Kernel: events that come while the reader wakes up wake nobody else.
//
// Set-up: 50 ms of silence, then 150 events on each CPU: ten times.
//
// Check: all are delivered, though nothing follows.
func deliveryBurst(t *T) {
	source, s := t.StartPerf("pages=16")
	for range 10 {
		sleepMillis(50)
		t.OutputOnSome(source, 150, 64)
		s.Settle()
	}
	s.Account()
}

// deliveryStraggler: A single event right after a burst is delivered, though nothing follows.
//
// Expected: however a reader saves wakeups while events flow, the last one must not stay behind.
//
// Kernel: as delivery/trickle.
//
// Set-up: bursts, and after each a single event, 0 to 12 ms later.
//
// Check: it is delivered.
func deliveryStraggler(t *T) {
	source := t.Perf()
	cpu := t.CPUs()[0]
	s := t.Start(source, "pages=16")
	for i := range 40 {
		t.Output(source, cpu, 100, 64)
		time.Sleep(time.Duration(i) * 300 * time.Microsecond)
		t.Output(source, cpu, 1, 64)
		s.Settle()
	}
	s.Account()
}

// deliveryWatermark: As many events as the wakeup setting names are delivered.
//
// Expected: the setting means what it says.
//
// Kernel: perf_event_attr.wakeup_events wakes after that many records; with the flag watermark, wakeup_watermark after that many bytes.
//
// Set-up: wakeup_events of 8, or wakeup_bytes of 800; groups of 8 events, or of 10 with more than 800 bytes in all.
//
// Check: each group is delivered before the next one is output.
func deliveryWatermark(setting string, group int) func(*T) {
	return func(t *T) {
		source := t.Perf()
		cpu := t.CPUs()[0]
		s := t.Start(source, "pages=16", setting)
		for range 20 {
			t.Output(source, cpu, group, 100)
			s.Settle()
		}
	}
}

// deliveryBelow: Events below the watermark are delivered in the end, though nothing follows.
//
// Expected: a setting that saves wakeups may cost delay. It must not cost events.
//
// Kernel: below the watermark nobody is woken, however long it takes. data_head says that there is something.
//
// Set-up: wakeup_events of 100; poll=20, for readers that can be told how long that may take. Three events.
//
// Check: they are delivered.
//
// Known: users of a watermark without a timeout did not get their last events: cloudflare/xdpcap#39; discussed in iovisor/bcc#3801.
func deliveryBelow(t *T) {
	source, s := t.StartPerf("pages=16", "wakeup_events=100", "poll=20")
	for range 5 {
		t.Output(source, t.CPUs()[0], 3, 64)
		s.Settle()
	}
}

// deliveryFairness: Events of a quiet CPU are delivered while another CPU floods.
//
// Expected: a CPU that outputs as fast as it can does not starve the others.
//
// Kernel: as delivery/flush-under-load.
//
// Set-up: a thread on CPU A that never rests; single events on CPU B.
//
// Check: each event of B is delivered before the next one is output, while A goes on.
func deliveryFairness(t *T) {
	a, b := t.Two()
	source, s := t.StartPerf("pages=16")
	detach := t.attach(source)
	stop := t.threads([]int{a}, 1, 500, 0)
	for i := range 20 {
		t.Output(source, b, 1, 64)
		why := s.wait(func(st *State) bool { return st.Of[0][b].Levels[0].Next == uint64(i)+1 })
		if why != "" {
			s.With(func(st *State) {
				t.Failf("%s; of the quiet CPU %d events were delivered, of %+v; of the other %d", why, st.Of[0][b].Samples, t.Total(source)[b], st.Of[0][a].Samples)
			})
		}
	}
	stop()
	detach()
	s.Settle()
	s.report()
	s.Account()
}

// deliverySlow: A slow callback delays events, and loses none that fit.
//
// Expected: rings are there to buffer, small ones too.
//
// Kernel: a ring's space is free once data_tail has passed it.
//
// Set-up: rings of 16 KiB, 500 µs in the callback for each event. Five times, each CPU outputs 150 events at once, of up to 96 bytes in
// the ring: most of it. One event more after each time shows that the reader has given the room back: some do so behind a pass.
//
// Check: all are delivered.
func deliverySlow(t *T) {
	source, s := t.StartPerf("pages=4")
	s.Do("slow 500")
	for range 5 {
		t.OutputOnSome(source, 150, 64)
		s.Settle()
		t.OutputOnSome(source, 1, 64)
		s.Settle()
	}
	s.Do("slow 0")
	s.Account()
}

// IdleShare is the most CPU time that an idle reader may take.
var IdleShare = 0.01

// deliveryIdle: A reader that has nothing to read takes no CPU time.
//
// Expected: agents are idle most of the time, on batteries too. 1 % of one CPU is the limit here, which a timer of 10 ms keeps on any
// machine that is not emulated (-idle).
//
// Kernel: a thread that sleeps in epoll_wait costs nothing.
//
// Set-up: nothing is output for 2 seconds (1 second in the short form).
//
// Check: the process took less than 1 % of a CPU, by /proc/PID/task/*/schedstat, the best of five times. The figure is noted.
func deliveryIdle(t *T) {
	source, s := t.StartPerf("pages=16")
	t.Output(source, t.CPUs()[0], 1, 64)
	s.Settle()
	sleepMillis(100)
	s.idle()
}

// deliveryBusyIdle: A reader that was busy takes no CPU time once nothing comes.
//
// Expected: as delivery/idle-cpu: what saves wakeups while events flow ends when they do.
//
// Kernel: as delivery/idle-cpu.
//
// Set-up: load on all CPUs for a while; then nothing is output for 2 seconds (1 second in the short form).
//
// Check: as delivery/idle-cpu.
func deliveryBusyIdle(t *T) {
	source, s := t.StartPerf("pages=64")
	stop := t.load(source, 1, 50, time.Millisecond, 0)
	sleepMillis(200)
	stop()
	s.Settle()
	sleepMillis(300)
	s.idle()
}

// idle measures what the process does while nothing is output.
func (s *Subject) idle() {
	least, seen := 1e9, ""
	for range 5 { // what else happens on a machine may be counted, now and then
		before, begin := s.Look(), time.Now()
		time.Sleep(s.t.duration(2 * time.Second))
		after, took := s.Look(), time.Since(begin).Seconds()
		if share := (after.CPU - before.CPU).Seconds() / took; share < least {
			least, seen = share, fmt.Sprintf("%.2f %% of a CPU, %.0f sleeps a second", 100*share, float64(after.Switches-before.Switches)/took)
		}
		if least <= IdleShare {
			s.t.Notef("%s", seen)
			return
		}
	}
	s.t.Failf("idle, it takes %s", seen)
}
