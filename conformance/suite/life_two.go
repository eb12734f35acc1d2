package suite

import (
	"syscall"
	"time"
)

// lifeSecondLoad: Under load, too, a second reader gets all from then on, and the first gets nothing back.
//
// Expected: as life/second-reader. An update starts the new agent before it stops the old one.
//
// Kernel: as life/second-reader. A reader that changes entries while it runs, to save wakeups or to follow CPUs, cannot see from user
// space whose they are (perf_event_fd_array_map_lookup).
//
// Set-up: all CPUs output, with pauses. A reader reads; another process opens the map, and both go on.
//
// Check: the first delivers nothing that was output after the second was ready. The second delivers all that went into rings since.
func lifeSecondLoad(t *T) {
	source := t.Perf()
	first := t.Start(source, "pages=64")
	stop := t.load(source, 1, 20, time.Millisecond, 0)
	sleepMillis(100)
	second := t.Start(source, "pages=64")
	of := t.Counts(source)
	from := t.Total(source)
	t.lasts(source, 0)
	stop()
	first.With(func(st *State) {
		for cpu := range of {
			for level, c := range of[cpu].Levels {
				if next := st.Of[0][cpu].Levels[level].Next; next > c.Attempted {
					t.Failf("the first reader got event %d of CPU %d; there had been %d when the second was ready", next-1, cpu, c.Attempted)
				}
			}
		}
	})
	second.goesOn(source)
	total := t.Total(source)
	second.With(func(st *State) {
		for cpu, c := range total {
			if want := c.Written - from[cpu].Written; st.Of[0][cpu].Samples < want {
				t.Failf("CPU %d: since the second reader was ready, %d outputs went into rings, and it delivered %d", cpu, want, st.Of[0][cpu].Samples)
			}
		}
	})
}

// lifeOlderCloses: When an older reader closes, a newer one goes on.
//
// Expected: closing gives back what is the reader's. The map's entries are the newer reader's by then.
//
// Kernel: deleting an entry deletes whatever is there (bpf_map_delete_elem). The kernel by itself removes those that were set by the
// map's file that is closed (perf_event_fd_array_release).
//
// Set-up: a reader gets some events. Another process opens the map. The first one closes, and its process ends.
//
// Check: what is output then is delivered by the second.
func lifeOlderCloses(t *T) {
	t.olderEnds(func(first *Subject) {
		first.Do("close")
		first.Send("quit")
		if why := first.wait(func(st *State) bool { return st.Exited }); why != "" {
			t.Failf("%s; waited until the first reader's process ends", why)
		}
	})
}

// lifeOlderKilled: When an older reader is killed, a newer one goes on.
//
// Expected: as life/older-reader-closes.
//
// Kernel: as life/older-reader-closes.
//
// Set-up: as life/older-reader-closes, and the first one's process is killed.
//
// Check: as life/older-reader-closes.
func lifeOlderKilled(t *T) {
	t.olderEnds(func(first *Subject) {
		first.cmd.Process.Signal(syscall.SIGKILL)
		first.abandon = true
		if why := first.wait(func(st *State) bool { return st.Exited }); why != "" {
			t.Failf("%s; waited until the process is gone", why)
		}
	})
}

// lifeOlderPauses: When an older reader pauses, a newer one goes on.
//
// Expected: as life/older-reader-closes: pausing stops the reader's own events.
//
// Kernel: as life/older-reader-closes.
//
// Set-up: as life/older-reader-closes, and the first one pauses.
//
// Check: as life/older-reader-closes.
func lifeOlderPauses(t *T) {
	t.olderEnds(func(first *Subject) { first.Do("pause") })
}

func (t *T) olderEnds(end func(first *Subject)) {
	source := t.Perf()
	first := t.Start(source, "pages=16")
	t.Output(source, t.CPUs()[0], 3, 64)
	first.Settle()
	second := t.takeover(source)
	end(first)
	second.goesOn(source)
}

// goesOn checks that what is output on each CPU goes into rings, and that the subject delivers it.
func (s *Subject) goesOn(source *Source) {
	t := s.t
	for _, cpu := range t.some() {
		before := t.Total(source)[cpu]
		t.Output(source, cpu, 10, 64)
		after := t.Total(source)[cpu]
		if n := after.Attempted - after.Written - before.Attempted + before.Written; n > 0 {
			t.Failf("the newer reader lost its place: of 10 outputs on CPU %d, %d were refused", cpu, n)
		}
		want := t.runs(source)[cpu].Attempted
		s.Until("the newer reader has delivered all", func(st *State) bool { return st.Of[0][cpu].Levels[0].Next == want })
	}
	s.Check()
}
