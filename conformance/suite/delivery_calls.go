package suite

import (
	"time"
)

// deliveryFlush: A flush delivers what lies below the watermark.
//
// Expected: whoever waits for all so far asks for it.
//
// Kernel: as delivery/below-watermark.
//
// Set-up: wakeup_events of 100, three events on each CPU, flush: ten times.
//
// Check: when the flush is done, they have been delivered.
//
// Known: cilium/ebpf has Flush for this, cilium/ebpf#1491.
func deliveryFlush(t *T) {
	source, s := t.StartPerf("pages=16", "wakeup_events=100")
	for round := 1; round <= 10; round++ {
		t.OutputOnSome(source, 3, 64)
		s.Do("flush")
		s.With(func(st *State) {
			if want := 3 * round * len(t.some()); st.Events != want {
				t.Failf("%d of %d events had been delivered when the flush was done", st.Events, want)
			}
		})
	}
	s.Account()
}

// deliveryFlushEmpty: A flush of empty rings is done, too.
//
// Expected: to ask for everything so far must not hang if that is nothing.
//
// Kernel: nothing wakes a reader of empty rings.
//
// Set-up: ten flushes; no outputs.
//
// Check: each is done.
func deliveryFlushEmpty(t *T) {
	s := t.Start(t.Perf(), "pages=16")
	for range 10 {
		s.Do("flush")
	}
}

// deliveryFlushLoad: A flush ends, although events keep coming.
//
// Expected: everything so far is finite.
//
// Kernel: a reader that reads until a ring is empty need not end where programs are as fast.
//
// Set-up: threads on all CPUs that never rest; flush: three times.
//
// Check: each is done.
//
// Known: a reader that loads data_head anew for each record may never come to its end: iovisor/bcc#3822.
func deliveryFlushLoad(t *T) {
	source, s := t.StartPerf("pages=16")
	stop := t.load(source, 1, 500, 0, 0)
	for range 3 {
		sleepMillis(20)
		s.Do("flush")
	}
	stop()
	s.Settle()
	s.report()
	s.Account()
}

// deliveryDeadline: A wait with a deadline ends at it, and reading goes on.
//
// Expected: a program does other things now and then.
//
// Kernel: epoll_wait takes a timeout.
//
// Set-up: three waits, limited to 20 ms, without outputs; then outputs.
//
// Check: the waits take at least 20 ms and end; events are delivered then.
func deliveryDeadline(t *T) {
	source, s := t.StartPerf("pages=16")
	for range 3 {
		begin := time.Now()
		s.Do("deadline 20")
		if d := time.Since(begin); d < 19*time.Millisecond {
			t.Failf("a wait that is limited to 20 ms ended after %v without an event", d)
		}
	}
	t.Output(source, t.CPUs()[0], 10, 64)
	s.Settle()
}

// deliveryDeadlineBelow: A deadline loses nothing that lies below the watermark.
//
// Expected: after a wait that ended by its deadline, events that are there are delivered, now or later.
//
// Kernel: as delivery/below-watermark.
//
// Set-up: wakeup_events of 100, three events, a wait limited to 20 ms; five times. Then events enough to wake.
//
// Check: all are delivered.
//
// Known: cilium/ebpf#1429.
func deliveryDeadlineBelow(t *T) {
	source := t.Perf()
	cpu := t.CPUs()[0]
	s := t.Start(source, "pages=16", "wakeup_events=100")
	for range 5 {
		t.Output(source, cpu, 3, 64)
		s.Do("deadline 20")
	}
	t.Output(source, cpu, 120, 64)
	if s.Try("flush") != "" {
		t.Output(source, cpu, 120, 64) // enough for a setting that counts from the last wakeup
	}
	s.Settle()
	s.Account()
}

// deliveryStopLoad: Reading stops when it is told to, although events keep coming.
//
// Expected: a cancelled context, or a loop that is to end, ends it under any load.
//
// Kernel: as delivery/flush-under-load.
//
// Set-up: threads on all CPUs that never rest; stop and go, three times.
//
// Check: each stop is done, and nothing is delivered until the next go.
func deliveryStopLoad(t *T) {
	source, s := t.StartPerf("pages=16")
	stop := t.load(source, 1, 500, 0, 0)
	for range 3 {
		sleepMillis(20)
		s.Do("stop")
		before := 0
		s.With(func(st *State) { before = st.Events })
		sleepMillis(20)
		s.With(func(st *State) {
			if st.Events > before {
				t.Failf("%d events were delivered while reading was stopped", st.Events-before)
			}
		})
		s.Do("go")
	}
	stop()
	s.Settle()
	s.report()
	s.Account()
}

// deliveryStopWaiting: A reader that waits for events can be stopped.
//
// Expected: to stop does not take an event.
//
// Kernel: a thread in epoll_wait needs to be woken by something else.
//
// Set-up: stop and go, ten times, without outputs. Then outputs.
//
// Check: each stop is done; events are delivered then.
func deliveryStopWaiting(t *T) {
	source, s := t.StartPerf("pages=16")
	for range 10 {
		sleepMillis(5)
		s.Do("stop")
		s.Do("go")
	}
	t.Output(source, t.CPUs()[0], 10, 64)
	s.Settle()
}
