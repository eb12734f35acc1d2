// Package grace waits for RCU grace periods, and turns them into watermarks.
//
// The kernel takes an event's time and publishes the event within one RCU read-side critical section
// (perf_event_output, kernel/events/core.c). So when a grace period that began at a time T has
// ended, every event with an earlier time is published. That is a guarantee, not a guess, however
// long a CPU was interrupted, or a virtual one not run, in between.
//
// Times that a program takes itself are covered because the whole program runs inside such a section.
// Sleepable programs do not. The verifier keeps perf event arrays from them, but misses those that they find
// in a map of maps or use in a function that freplace has put into them.
package grace

import (
	"errors"
	"strings"
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

// Set is a set of providers.
type Set uint8

// The providers.
const (
	NestLevels Set = 1 << iota
	BindMount
	MapInMap
	Membarrier

	All = NestLevels | BindMount | MapInMap | Membarrier
)

// String returns the names.
func (s Set) String() string {
	var names []string
	for i, name := range []string{"nest-levels", "bind-mount", "map-in-map", "membarrier"} {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// Options say which providers may be used.
type Options struct {
	Allow Set // 0 means All
	// Programs requires that whole programs are waited for, which is what Wait promises. Without it, it is
	// enough if all events are published whose time the kernel took before Wait was called: NestLevels does no more.
	Programs bool
	// Once is for a provider that is only opened, as Open waits: it returns the first that works, and keeps none in reserve.
	// BindMount is not proven for that, but used if it was.
	Once bool
}

// Open opens the ways to wait that work on this machine, for this user, and returns them as one provider, which has then
// waited once. It is NestLevels if that is proven here; else the fastest of BindMount, if that is proven here, and MapInMap; and
// Membarrier where none of these works. If the first fails later, as a process may drop privileges, the next takes over.
//
// The first Open of a process takes some 10 ms for the proof, and a grace period for what it is compared with. If no
// provider works, the error names each with the reason, and wraps the reasons.
func Open(o Options) (Provider, error) { return here.open(o) }

// unavailableError says why no provider works.
type unavailableError struct{ refusals []error }

func (e *unavailableError) Error() string {
	s := "grace.Open: no way to wait for BPF programs to finish works here:\n\t" + lines(e.refusals)
	if errors.Is(e, syscall.EMFILE) || errors.Is(e, syscall.ENFILE) {
		return s + "\n\tRaise the limit on open files (ulimit -n, LimitNOFILE=): it takes a few"
	}
	return s + "\n\tDo one of these: grant CAP_BPF (CAP_SYS_ADMIN before Linux 5.8) and build with cgo, for map-in-map; " +
		"run where two CPUs are online and none is nohz_full, for membarrier; allow all ways by the options"
}

// Unwrap returns the reasons.
func (e *unavailableError) Unwrap() []error { return e.refusals }

func lines(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n\t")
}
