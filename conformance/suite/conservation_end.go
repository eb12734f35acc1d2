package suite

import (
	"time"
)

// conservationStopped: What is output while nobody reads is delivered when reading goes on.
//
// Expected: to stop reading for a while is not to lose what fits.
//
// Kernel: rings keep what nobody has read. A descriptor's readiness may be consumed meanwhile (perf_poll): a reader that goes back to
// sleep without a look at data_head misses what is there.
//
// Set-up: reading stops, events are output, reading goes on: five times.
//
// Check: all are delivered, though nothing follows.
func conservationStopped(t *T) {
	source, s := t.StartPerf("pages=16")
	for range 5 {
		s.Do("stop")
		t.OutputOnSome(source, 20, 64)
		s.Do("go")
		s.Settle()
	}
	s.Account()
}

// conservationPause: While paused, outputs are refused; what came before and what comes after is delivered.
//
// Expected: a pause holds back the kernel, and costs nothing that is in rings already.
//
// Kernel: a reader deletes its entries of the map (-ENOENT, not counted), or uses PERF_EVENT_IOC_PAUSE_OUTPUT (-ENOSPC, counted as lost).
//
// Set-up: outputs before a pause, within it, and after it.
//
// Check: all outputs within are refused; attempted = delivered + lost + refused.
func conservationPause(t *T) {
	source, s := t.StartPerf("pages=16")
	for range 3 {
		before := t.Sum(source)
		t.OutputOnSome(source, 10, 64)
		s.Do("pause")
		t.OutputOnSome(source, 10, 64)
		if got, want := t.Sum(source).Written-before.Written, uint64(10*len(t.some())); got != want {
			t.Failf("%d outputs went into rings during the pause", int(got-want))
		}
		s.Do("resume")
		t.OutputOnSome(source, 10, 64)
		s.Settle()
	}
	s.report()
	s.Account()
}

// conservationPauseFlushClose: Reading can end without losing what has been output, while programs go on.
//
// Expected: on Ctrl-C, what has happened up to then is still delivered.
//
// Kernel: outputs fail once there is no ring in the map. Programs that run already may still be writing: a grace period waits for them.
//
// Set-up: load on all CPUs. Pause, flush, close.
//
// Check: attempted = delivered + lost + refused.
func conservationPauseFlushClose(t *T) {
	source, s := t.StartPerf("pages=64")
	stop := t.load(source, 1, 20, time.Millisecond, 0)
	time.Sleep(t.duration(200 * time.Millisecond))
	s.Do("pause")
	awaitPrograms()
	s.Do("flush")
	s.Do("close")
	stop()
	s.Account()
}

// conservationDrain: After programs have been detached, a drain delivers all that is left.
//
// Expected: a program that ends wants the rest, and to know when that is all.
//
// Kernel: detaching does not wait for programs that are running.
//
// Set-up: load on all CPUs, which ends; the programs are detached; drain.
//
// Check: when the drain is done, all has been delivered.
func conservationDrain(t *T) {
	source, s := t.StartPerf("pages=256")
	stop := t.load(source, 1, 20, time.Millisecond, 0)
	time.Sleep(t.duration(200 * time.Millisecond))
	stop()
	s.Do("drain")
	s.Account()
}

// conservationTwoMaps: Two maps in one process do not disturb each other.
//
// Expected: each event comes with its map; losses too.
//
// Kernel: each map has rings of its own.
//
// Set-up: two perf event arrays, with different numbers of events on each CPU; one overflows.
//
// Check: the sums for each map and CPU.
func conservationTwoMaps(t *T) {
	one, two := t.Perf(), t.Perf()
	s := t.StartAll([]*Source{one, two}, "pages=2")
	for _, cpu := range t.some() {
		t.Output(one, cpu, 30, 64)
		t.Output(two, cpu, 20, 100)
	}
	s.Settle()
	if s.Try("stop") == "" {
		t.Output(one, t.CPUs()[0], 300, 64)
		t.Output(two, t.CPUs()[0], 3, 64)
		s.Do("go")
		s.Settle()
		s.report()
	}
	s.Account()
}

// conservationFewEntries: A map with fewer entries than CPUs is read as far as it goes, or refused when it is opened.
//
// Expected: what cannot be read is not silently missing.
//
// Kernel: bpf_perf_event_output on a CPU beyond max_entries fails with -E2BIG, which the kernel does not count.
//
// Set-up: a map with one entry. Outputs on each CPU.
//
// Check: what outputs on CPU 0 put into the ring is delivered; or opening fails, with a reason.
func conservationFewEntries(t *T) {
	t.Two()
	source := t.Source(Config{Kind: "perf", Entries: 1})
	s := t.Launch([]*Source{source}, "pages=16")
	refused := ""
	s.Until("the adapter is ready", func(st *State) bool {
		if !st.Ready && len(st.Errors) > 0 {
			refused = st.Errors[0]
		}
		return st.Ready || refused != ""
	})
	if refused != "" {
		s.Kill()
		t.Notef("refused: %s", refused)
		return
	}
	t.OutputOnSome(source, 20, 64)
	s.Settle()
	s.Account()
}

// conservationManyEntries: A map with more entries than CPUs can be read.
//
// Expected: programs are built for the largest machine, with max_entries of 128 or 1024.
//
// Kernel: entries beyond the CPUs stay empty.
//
// Set-up: a map with 1024 entries. Outputs on each CPU.
//
// Check: all are delivered.
func conservationManyEntries(t *T) {
	source := t.Source(Config{Kind: "perf", Entries: 1024})
	s := t.Start(source, "pages=16")
	t.OutputOnSome(source, 20, 64)
	s.Settle()
	s.Account()
}
