package suite

// deliveryWakeups: A wakeup setting saves wakeups.
//
// Expected: whoever sets a watermark wants to be woken once for many events. Each wakeup costs the traced program microseconds.
//
// Kernel: perf_event_attr.wakeup_events wakes after that many records. Waking up to find nothing, or by a timer, is the reader's own doing.
//
// Set-up: wakeup_events of 500; 100 times 500 events on one CPU, the next ones as soon as those have been delivered.
//
// Check: the process's threads went to sleep less often than once per event, by /proc/PID/task/*/status, the adapter's own sleeps included. The
// figure is noted.
func deliveryWakeups(t *T) {
	const group = 500
	source := t.Perf()
	cpu := t.CPUs()[0]
	s := t.Start(source, "pages=64", "wakeup_events=500")
	t.Output(source, cpu, group, 64)
	s.Settle()
	groups := 100
	if t.short {
		groups = 20
	}
	before := s.Look().Switches
	for range groups {
		t.Output(source, cpu, group, 64)
		s.Settle()
	}
	sleeps := s.Look().Switches - before
	if sleeps >= groups*group {
		t.Failf("%d sleeps while %d times %d events were delivered", sleeps, groups, group)
	}
	t.Notef("%.1f sleeps per %d events", float64(sleeps)/float64(groups), group)
}

// deliveryAllocations: What it costs the heap to deliver an event.
//
// Expected: a reader of a million events a second that allocates for each keeps the allocator busy, and the garbage collector where there is
// one. Some have a way to read without; the adapter uses what the documentation shows first.
//
// Kernel: none of its affair: an event can be looked at in the ring.
//
// Set-up: 20,000 events (5,000 in the short form), after as many to warm up. The adapter counts its process's allocations.
//
// Check: nothing is required. The figure is noted.
func deliveryAllocations(t *T) {
	source := t.Perf()
	cpu := t.CPUs()[0]
	s := t.Start(source, "pages=64")
	count := 20000
	if t.short {
		count = 5000
	}
	deliver := func() {
		for range count / 100 {
			t.Output(source, cpu, 100, 64)
			s.Settle()
		}
	}
	allocations := func() (n uint64) {
		s.Do("allocations")
		s.With(func(st *State) { n = st.Number })
		return n
	}
	deliver()
	before := allocations()
	deliver()
	t.Notef("%.2f allocations per event", float64(allocations()-before)/float64(count))
}
