// Package grace waits for RCU grace periods, and turns them into watermarks.
//
// The kernel takes an event's time and publishes the event within one RCU read-side critical
// section (perf_event_output, kernel/events/core.c). So once a grace period that began at a time T
// has ended, every event with an earlier time is published. That is a guarantee, no matter how long
// a CPU was interrupted, or a virtual one descheduled.
//
// Times that a program takes itself are covered too, because the whole program runs inside such a
// section. Sleepable programs do not. The verifier bars them from perf event arrays, except from
// those in a map of maps or in a function that freplace replaced.
package grace

import (
	"errors"
	"strings"
	"syscall"
)

// Provider is one way to wait for a grace period.
type Provider interface {
	// Name returns the provider's name.
	Name() string
	// Wait blocks until every non-sleepable BPF program that was running at the call has finished.
	// The caller then sees all that the programs wrote. That takes microseconds to tens of
	// milliseconds, and longer if a program gets no CPU. After an error nothing is known;
	// os.ErrClosed only means that Close ended the wait. Wait is safe for concurrent use.
	Wait() error
	// Close releases the provider's resources. Nobody may call it during a Wait.
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

// Options select the allowed providers.
type Options struct {
	Allow Set // 0 means All
	// Programs requires a wait for whole programs, as Wait promises. Otherwise it suffices that all
	// events stamped by the kernel before the call of Wait are published: NestLevels does no more.
	Programs bool
	// Once is for a provider that only serves the wait in Open. Open then returns the first that
	// works, without a reserve. It uses BindMount only if that is already proven, or if nothing
	// else works.
	Once bool
}

// Open opens the providers that work on this machine for this user, and combines them into one,
// which has then waited once. The order is NestLevels, if proven here; then the faster of
// BindMount, if proven here, and MapInMap; then Membarrier. If the first fails later, for example
// because the process drops privileges, the next takes over.
//
// The first Open of a process takes some 10 ms for the proof, and grace periods to compare costs.
// If no provider works, the error wraps the reason for each.
func Open(o Options) (Provider, error) { return here.open(o) }

// unavailableError lists why no provider works.
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
