// Package grace waits for RCU grace periods, and turns them into watermarks.
//
// The kernel takes an event's time and publishes the event within one RCU read-side critical section
// (perf_event_output, kernel/events/core.c). So when a grace period that began at a time T has
// ended, every event with an earlier time is published. That is a guarantee and no guess, however
// long a CPU was interrupted, or a virtual one not run, in between.
//
// Times that a program takes itself are covered because the whole program runs inside such a section.
// Sleepable programs do not. The verifier keeps perf event arrays from them, but misses those that they find
// in a map of maps or use in a function that freplace has put into them.
package grace

import (
	"errors"
	"fmt"
	"syscall"
)

// Provider is one way to wait for a grace period.
type Provider interface {
	// Name says which way.
	Name() string
	// Wait blocks until every BPF program, sleepable ones aside, that was running when it was called has finished, and all
	// that it wrote is visible to the caller. That takes microseconds to tens of milliseconds, and
	// longer where a program is not given the CPU. After an error nothing is known; os.ErrClosed says that
	// a Close ended it, and not that the provider does not work. Wait is safe for concurrent use.
	Wait() error
	// Close releases what the provider holds. It must not be called while a Wait is under way.
	Close() error
}

// Options say which providers may be used.
type Options struct {
	// CPUs are those whose rings are read, if they are online. Only the CPU sweep, which visits them, needs to know.
	CPUs []int
	// Sweep allows the CPU sweep, where nothing else works: a thread of this process runs for a
	// moment on each of the CPUs, isolated ones included, at every Wait.
	Sweep bool
}

// A candidate is a provider that can be tried.
type candidate struct {
	name string
	open func() (Provider, error)
}

var errNotAllowed = fmt.Errorf("opt-in, and not allowed by the options: %w", errors.ErrUnsupported)

// Open returns the first provider that works on this machine, for this user: an update of a map in
// a map, membarrier, and, if allowed, a CPU sweep. It has then waited with it once. If none works,
// the error names each with the reason, and wraps the reasons.
func Open(o Options) (Provider, error) { return probe(candidates(o)) }

func probe(all []candidate) (Provider, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("grace.Open: waiting for BPF programs to finish needs Linux: %w", errors.ErrUnsupported)
	}
	refusals := make([]error, 0, len(all))
	for _, c := range all {
		p, err := c.open()
		if err == nil {
			if err = p.Wait(); err == nil {
				return p, nil
			}
			p.Close()
		}
		refusals = append(refusals, fmt.Errorf("%s: %w", c.name, err))
	}
	return nil, &unavailableError{refusals}
}

// unavailableError says why no provider works.
type unavailableError struct{ refusals []error }

func (e *unavailableError) Error() string {
	s := "grace.Open: no way to wait for BPF programs to finish works here:"
	for _, err := range e.refusals {
		s += "\n\t" + err.Error()
	}
	if errors.Is(e, syscall.EMFILE) || errors.Is(e, syscall.ENFILE) {
		return s + "\n\tRaise the limit on open files (ulimit -n, LimitNOFILE=): it takes a few"
	}
	return s + "\n\tDo one of these: grant CAP_BPF (CAP_SYS_ADMIN before Linux 5.8) and build with cgo, for map-in-map; " +
		"run where two CPUs are online and none is nohz_full, for membarrier; allow the CPU sweep, " +
		"and the process to run on all CPUs that have rings"
}

// Unwrap returns the reasons.
func (e *unavailableError) Unwrap() []error { return e.refusals }
