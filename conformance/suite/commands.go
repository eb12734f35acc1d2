package suite

import (
	"fmt"
	"strings"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/workload"
)

// Send sends a command, and does not wait for its answer.
func (s *Subject) Send(command string) {
	if strings.HasPrefix(command, "close") {
		s.closed = true
	}
	fmt.Fprintln(s.stdin, command) // an adapter that has ended is seen by Until
}

// Do sends a command, and waits until it is done. Where the API has nothing for it, the scenario cannot.
func (s *Subject) Do(command string) {
	if why := s.Try(command); why != "" {
		s.t.Cannotf("%s", why)
	}
}

// Try is Do that returns why it cannot.
func (s *Subject) Try(command string) (declined string) {
	s.Finished(s.Begin(command), &declined)
	return declined
}

// Pending is a command that has been sent.
type Pending struct {
	name   string
	before int
	errors int
}

// Begin sends a command, for Finished to wait for.
func (s *Subject) Begin(command string) Pending {
	p := Pending{}
	p.name, _, _ = strings.Cut(command, " ")
	s.With(func(st *State) { p.before, p.errors, st.Declined = st.Done[p.name], len(st.Errors), "" })
	s.Send(command)
	return p
}

// Finished waits until a command is done, or declined.
func (s *Subject) Finished(p Pending, declined *string) {
	failed := ""
	s.Until(fmt.Sprintf("%q is done", p.name), func(st *State) bool {
		if len(st.Errors) > p.errors && !s.lenient {
			failed = st.Errors[p.errors]
		}
		*declined = st.Declined
		return st.Done[p.name] > p.before || st.Declined != "" || failed != ""
	})
	if failed != "" {
		s.t.Failf("%q: the reader says: %s", p.name, failed)
	}
}

// Settle waits until all that went into rings so far has been delivered.
func (s *Subject) Settle() {
	want := make([][]workload.Counts, len(s.sources))
	for i, source := range s.sources {
		want[i] = s.t.Total(source)
		for cpu := range want[i] {
			want[i][cpu].Written -= want[i][cpu].Discarded
		}
	}
	why := s.wait(func(st *State) bool {
		if len(st.Problems) > 0 && !s.lenient {
			return true // what is wrong need not be waited for
		}
		for i := range want {
			for cpu, c := range want[i] {
				if st.Of[i][cpu].Samples < c.Written {
					return false
				}
			}
		}
		return true
	})
	if !s.lenient {
		s.Check()
	}
	if why == "" {
		return
	}
	s.With(func(st *State) {
		for i := range want {
			for cpu, c := range want[i] {
				if got := st.Of[i][cpu].Samples; got < c.Written {
					s.t.Failf("%s; %d of %d events of CPU %d were delivered", why, got, c.Written, cpu)
				}
			}
		}
	})
}

// Check fails the scenario if the reader has delivered what it should not have.
func (s *Subject) Check() {
	s.With(func(st *State) {
		switch {
		case len(st.Problems) > 0:
			s.t.Failf("%s", st.Problems[0])
		case len(st.Errors) > 0 && !s.lenient:
			s.t.Failf("the reader says: %s", st.Errors[0])
		case len(st.Damaged) > 0 && !s.lenient:
			s.t.Failf("the reader says: %s", st.Damaged[0])
		}
	})
}

// finish checks the end of each scenario: the reader closes, and the process ends.
func (s *Subject) finish() {
	if s.abandon {
		return
	}
	s.Check()
	if !s.closed {
		s.Try("close")
	}
	s.Send("quit")
	s.stdin.Close()
	if why := s.wait(func(st *State) bool { return st.Exited }); why != "" {
		s.t.Failf("%s; waited until the adapter ends", why)
	}
	s.Check()
	s.With(func(st *State) {
		if st.Status != "exit status 0" {
			s.t.Failf("the adapter ended with %s%s", st.Status, s.stderr.hint())
		}
	})
}

// Account checks that, for each CPU, attempted = delivered + lost + refused. Nothing may be on its way.
func (s *Subject) Account() {
	s.Check()
	for i, source := range s.sources {
		total := s.t.Total(source)
		s.With(func(st *State) { s.account(st, i, source.Kind, total) })
	}
}

func (s *Subject) account(st *State, i int, kind string, total []workload.Counts) {
	var lost uint64
	for cpu, c := range total {
		lost += c.Full
		got := workload.Outcome{Delivered: st.Of[i][cpu].Samples, Dropped: c.Discarded, Lost: st.Of[i][cpu].Lost}
		if kind != "perf" || st.LostAnon[i] > 0 {
			got.Lost = c.Full // unknown
		}
		if err := c.Balance(got, true); err != nil {
			s.t.Failf("CPU %d: %v", cpu, err)
		}
		if n := c.Busy + c.Other; n > 0 {
			s.t.Failf("CPU %d: %d outputs failed, the last with error %d", cpu, n, c.Strange)
		}
	}
	if got := st.TotalLost(i); kind == "perf" && got != lost {
		s.t.Failf("%d outputs found the ring full, %d were reported as lost", lost, got)
	}
}

// CPUs returns those that are online.
func (t *T) CPUs() []int {
	cpus, err := cpulist.Online(cpulist.Dir)
	t.must(err)
	return cpus
}

// Two returns two CPUs that are online.
func (t *T) Two() (a, b int) {
	cpus := t.CPUs()
	if len(cpus) < 2 {
		t.Cannotf("this machine has one CPU online")
	}
	return cpus[0], cpus[len(cpus)-1]
}
