package grace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A candidate is a provider that can be tried.
type candidate struct {
	is   Set
	open func() (Provider, error)
}

// rank is the order of preference. Among equal ranks, the cheapest wins.
func (s Set) rank() int {
	switch s {
	case NestLevels: // interrupts nobody
		return 0
	case Membarrier: // never faster than MapInMap, so not measured
		return 2
	}
	return 1
}

// A chooser chooses among candidates, and remembers what their waits cost.
type chooser struct {
	candidates []candidate
	mu         sync.Mutex
	costs      map[Set]time.Duration
}

var here = chooser{candidates: candidates(), costs: map[Set]time.Duration{}}

func (c *chooser) open(o Options) (Provider, error) {
	if len(c.candidates) == 0 {
		return nil, fmt.Errorf("grace.Open: waiting for BPF programs to finish needs Linux: %w", errors.ErrUnsupported)
	}
	if o.Once {
		if p := c.once(o); p != nil {
			return p, nil
		}
	}
	chosen, err := c.choose(o)
	if err != nil {
		return nil, err
	}
	if err := chosen.Wait(); err != nil {
		chosen.Close()
		return nil, &unavailableError{append(chosen.refused, fmt.Errorf("%v: %w", chosen.ways[len(chosen.ways)-1].is, err))}
	}
	return chosen, nil
}

// allowed returns nil if the options allow a provider.
func (o Options) allowed(is Set) error {
	switch {
	case o.Allow != 0 && o.Allow&is == 0:
		return fmt.Errorf("not allowed by the options: %w", errors.ErrUnsupported)
	case o.Programs && is == NestLevels:
		return fmt.Errorf("waits for outputs, not for whole programs: %w", errors.ErrUnsupported)
	}
	return nil
}

// compare orders by preference, and then by the measured cost of a wait.
func (c *chooser) compare(a, b Set) int {
	cost := func(is Set) time.Duration { return cmp.Or(c.costs[is], time.Hour) }
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(cost(a), cost(b)))
}

// once returns a provider that has waited, or nil if each would need a proof or failed.
func (c *chooser) once(o Options) Provider {
	c.mu.Lock()
	all := slices.DeleteFunc(slices.Clone(c.candidates), func(candidate candidate) bool {
		return o.allowed(candidate.is) != nil || candidate.is == BindMount && c.costs[BindMount] == 0
	})
	slices.SortStableFunc(all, func(a, b candidate) int { return c.compare(a.is, b.is) })
	c.mu.Unlock()
	for _, candidate := range all {
		if p, err := candidate.open(); err == nil {
			if p.Wait() == nil {
				return p
			}
			p.Close()
		}
	}
	return nil
}

// choose opens all allowed candidates, the best first.
func (c *chooser) choose(o Options) (*choice, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	chosen := &choice{}
	for _, candidate := range c.candidates {
		w := &way{is: candidate.is}
		err := o.allowed(w.is)
		if err == nil {
			if w.Provider, err = candidate.open(); err == nil {
				err = c.measure(w)
			}
		}
		if err != nil {
			chosen.refused = append(chosen.refused, fmt.Errorf("%v: %w", w.is, err))
			continue
		}
		chosen.ways = append(chosen.ways, w)
	}
	if len(chosen.ways) == 0 {
		return nil, &unavailableError{chosen.refused}
	}
	slices.SortStableFunc(chosen.ways, func(a, b *way) int { return c.compare(a.is, b.is) })
	return chosen, nil
}

// Measuring ends after ten waits or after this time, since a provider that slow needs no exact
// cost. For BindMount, such a long wait means a preemption. The choice lasts as long as the
// process, so BindMount gets more measurements.
const (
	enoughMeasured = 5 * time.Millisecond
	leastBindMount = 3
)

// measure sets the cost of a wait: the minimum of several, because a busy machine delays some.
func (c *chooser) measure(w *way) error {
	w.cost = c.costs[w.is]
	if w.cost != 0 || w.is.rank() == 2 {
		return nil
	}
	w.cost = time.Hour
	least := 0
	if w.is == BindMount {
		least = leastBindMount
	}
	start := time.Now()
	for n := 0; n < 10 && (n < least || time.Since(start) < enoughMeasured); n++ {
		begin := time.Now()
		if err := w.Wait(); err != nil {
			w.Close()
			return err
		}
		w.cost = min(w.cost, max(time.Since(begin), 1))
	}
	c.costs[w.is] = w.cost
	return nil
}

// A way is a provider that may be used.
type way struct {
	Provider
	is   Set
	cost time.Duration // of a wait, when it was measured; 0 if not measured
	gone atomic.Pointer[error]
}

// choice combines several providers. The first that works waits.
type choice struct {
	ways    []*way
	refused []error
}

// first returns the current first choice.
func (c *choice) first() *way {
	for _, w := range c.ways {
		if w.gone.Load() == nil {
			return w
		}
	}
	return c.ways[len(c.ways)-1]
}

func (c *choice) Name() string { return c.first().is.String() }

func (c *choice) Wait() (err error) {
	for i, w := range c.ways {
		last := i == len(c.ways)-1
		if w.gone.Load() != nil && !last {
			continue
		}
		if err = w.Wait(); err == nil {
			return nil
		}
		// The process dropped privileges, or got a new seccomp filter. Other failures may pass.
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
			failure := err
			w.gone.Store(&failure)
		}
	}
	return err
}

// Guard returns the least guard, in ns, that suffices for all of the providers.
func (c *choice) Guard() (guard uint64) {
	for _, w := range c.ways {
		if p, ok := w.Provider.(interface{ Guard() uint64 }); ok {
			guard = max(guard, p.Guard())
		}
	}
	return guard
}

func (c *choice) Close() error {
	var errs []error
	for _, w := range c.ways {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

// refusals gives the reason for each unused provider.
func (c *choice) refusals() []error {
	all := slices.Clone(c.refused)
	for _, w := range c.ways {
		err := w.gone.Load()
		switch {
		case err != nil:
			all = append(all, fmt.Errorf("%v: %w", w.is, *err))
		case w == c.first():
		case w.cost == 0:
			all = append(all, fmt.Errorf("%v: in reserve", w.is))
		default:
			all = append(all, fmt.Errorf("%v: in reserve, because a wait took %v", w.is, w.cost))
		}
	}
	return all
}
