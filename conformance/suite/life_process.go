package suite

import (
	"syscall"
	"time"

	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/internal/workload"
)

// lifeEnd: A program that ends without a word takes its rings with it.
//
// Expected: end of input, as when a parent dies, ends the adapter; outputs are refused then, and nothing is left in the map.
//
// Kernel: when the file goes by which entries were put into the map, they go too (perf_event_fd_array_release).
//
// Set-up: events, end of input.
//
// Check: the process ends with status 0; outputs after that find no ring.
func lifeEnd(t *T) {
	source, s := t.StartPerf("pages=16")
	t.Output(source, t.CPUs()[0], 10, 64)
	s.Settle()
	s.stdin.Close()
	if why := s.wait(func(st *State) bool { return st.Exited }); why != "" {
		t.Failf("%s; waited until the adapter ends", why)
	}
	s.With(func(st *State) {
		if st.Status != "exit status 0" {
			t.Failf("the adapter ended with %s%s", st.Status, s.stderr.hint())
		}
	})
	s.abandon = true
	t.refused(source)
}

// refused checks that outputs find no ring. The kernel may take a moment to clean up after a process.
func (t *T) refused(source *Source) {
	var before, after workload.Counts
	for end := time.Now().Add(t.patience); time.Now().Before(end); sleepMillis(5) {
		before = t.Sum(source)
		t.OutputOnSome(source, 1, 64)
		after = t.Sum(source)
		if after.Uncounted()-before.Uncounted() == uint64(len(t.some())) {
			return
		}
	}
	t.Failf("outputs do not fail for want of a ring: of %d, %d went into one, and %d found it full", after.Attempted-before.Attempted,
		after.Written-before.Written, after.Full-before.Full)
}

// lifeRefused: After close, outputs are refused: there is no ring.
//
// Expected: programs that go on cost little, and nobody counts losses of a reader that is gone.
//
// Kernel: without an entry in the map, bpf_perf_event_output returns -ENOENT.
//
// Set-up: a reader closes, and its process lives on.
//
// Check: outputs on each CPU find no ring.
func lifeRefused(t *T) {
	source, s := t.StartPerf("pages=16")
	s.Do("close")
	t.refused(source)
}

// lifeNothingLeft: After close, the process has no perf events, no rings, and no more threads than before.
//
// Expected: a reader that comes and goes leaves nothing in a long-lived process.
//
// Kernel: a ring is locked memory, and lives until its last mapping and event are gone.
//
// Set-up: a reader of all CPUs under load closes and opens anew, 20 times (10 in the short form).
//
// Check: descriptors, mappings and threads after the last close are as many as after the third, but for three; else once more, and they
// must not go on to grow.
func lifeNothingLeft(t *T) {
	source, s := t.StartPerf("pages=16")
	stop := t.load(source, 1, 20, time.Millisecond, 0)
	rounds := 20
	if t.short {
		rounds = 10
	}
	again := func(times int) Process {
		for range times {
			s.Do("reopen")
			sleepMillis(10)
			s.Do("close")
			s.With(func(st *State) { st.Of[0] = make([]workload.Account, source.CPUs) })
		}
		return s.Look()
	}
	s.Do("close")
	early := again(2)
	last := again(rounds - 3)
	// Threads of a runtime are as many as have ever been needed at once, and then no more; what leaks goes on to grow.
	for tries := 0; tries < 4 && (last.Files > early.Files+3 || last.Threads > early.Threads+3); tries++ {
		early, last = last, again(rounds-3)
	}
	stop()
	s.checkClosed()
	if last.Files > early.Files+3 || last.Threads > early.Threads+3 {
		t.Failf("%d times closed and opened, again and again, it went from %d descriptors and %d threads to %d and %d",
			rounds-3, early.Files, early.Threads, last.Files, last.Threads)
	}
	t.Notef("%d descriptors, %d threads", last.Files, last.Threads)
}

// lifeReopen: After close, a map can be opened and read anew.
//
// Expected: as life/nothing-left; the new reader gets all from then on.
//
// Kernel: entries of the map can be set again.
//
// Set-up: open, events, close: five times.
//
// Check: all events are delivered.
func lifeReopen(t *T) {
	source, s := t.StartPerf("pages=16")
	for range 5 {
		t.OutputOnSome(source, 10, 64)
		s.Settle()
		s.Do("close")
		s.Do("reopen")
	}
	s.closed = false
	s.Account()
}

// lifeKilled: After a reader has been killed, another one takes over.
//
// Expected: a crash costs what was in the rings, and nothing else.
//
// Kernel: as life/end-of-input.
//
// Set-up: load on all CPUs; the process is killed. Outputs are refused then; a second process opens the map.
//
// Check: outputs find no ring after the kill; what is output after the second is ready is delivered.
func lifeKilled(t *T) {
	source, s := t.StartPerf("pages=16")
	stop := t.load(source, 1, 20, time.Millisecond, 0)
	sleepMillis(50)
	s.cmd.Process.Signal(syscall.SIGKILL)
	s.abandon = true
	if why := s.wait(func(st *State) bool { return st.Exited }); why != "" {
		t.Failf("%s; waited until the process is gone", why)
	}
	stop()
	t.refused(source)
	t.takeover(source)
}

// takeover starts another subject, and checks that it gets all that is output from then on.
func (t *T) takeover(source *Source) *Subject {
	s := t.Start(source, "pages=16")
	before := t.Total(source)
	for range 10 {
		t.OutputOnSome(source, 10, 64)
		s.Until("all is delivered", func(st *State) bool {
			for _, cpu := range t.some() {
				if st.Of[0][cpu].Levels[0].Next < t.Counts(source)[cpu].Levels[0].Attempted {
					return false
				}
			}
			return true
		})
	}
	s.Check()
	after := t.Total(source)
	s.With(func(st *State) {
		for _, cpu := range t.some() {
			if got, want := st.Of[0][cpu].Samples, after[cpu].Written-before[cpu].Written; got != want {
				t.Failf("CPU %d: %d events were delivered, of %d", cpu, got, want)
			}
		}
	})
	return s
}

// lifeSecond: A second reader of the same map gets all from then on, and nothing comes twice.
//
// Expected: a perf event array has one reader; the newest has it. An older one that idles does not take events back.
//
// Kernel: an entry holds one event; the last that was set gets the outputs (bpf_map_update_elem).
//
// Set-up: a reader gets some events. Another process opens the map. Events, with pauses.
//
// Check: the second gets all events from then on, the first none.
func lifeSecond(t *T) {
	source := t.Perf()
	first := t.Start(source, "pages=16")
	t.Output(source, t.CPUs()[0], 3, 64)
	first.Settle()
	sleepMillis(50)
	t.takeover(source)
	sleepMillis(50)
	first.With(func(st *State) {
		if st.Events != 3 {
			t.Failf("the first reader got %d events after the second had opened the map", st.Events-3)
		}
	})
}

// lifeRestart: After a reader has closed, another process takes over.
//
// Expected: an agent is restarted, for an update perhaps, while programs stay attached.
//
// Kernel: outputs in between fail with -ENOENT.
//
// Set-up: a reader closes and ends; another process opens the map.
//
// Check: what is output after the second is ready is delivered.
func lifeRestart(t *T) {
	source := t.Perf()
	first := t.Start(source, "pages=16")
	t.Output(source, t.CPUs()[0], 3, 64)
	first.Settle()
	first.Do("close")
	t.takeover(source)
}

// lifeKeep: An event that a user keeps does not change.
//
// Expected: what the API gives to be kept stays as it was. Where events are views of the ring, the API has a copy to keep.
//
// Kernel: once data_tail has passed a record, the kernel overwrites it.
//
// Set-up: the user keeps an event. Then the ring is filled several times.
//
// Check: the kept bytes are those of that event.
func lifeKeep(t *T) {
	source := t.Perf()
	cpu := t.CPUs()[0]
	s := t.Start(source, "pages=1")
	s.Do("keep")
	t.Output(source, cpu, 1, 200)
	s.Settle()
	for range 20 {
		t.Output(source, cpu, 10, 200)
		s.Settle()
	}
	s.With(func(st *State) { st.keep = true })
	s.Do("kept")
	s.With(func(st *State) {
		last := st.Items[len(st.Items)-1]
		if last.Type != wire.Event {
			t.Failf("nothing was kept")
		}
		if p, err := workload.Check(last.Data); err != nil || p.Seq != 0 || p.Size != 200 {
			t.Failf("the event that was kept is %+v now (%v); it was number 0, of 200 bytes", p, err)
		}
		st.keep = false
	})
}
