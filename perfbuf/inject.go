package perfbuf

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/inject"
)

func init() {
	inject.NewReader = func(k inject.Kernel, options any) (any, error) { return simulated(k, options.(Options)) }
}

// simulated is Open on rings that no kernel writes, for perfbuftest.
func simulated(k inject.Kernel, want Options) (*Reader, error) {
	cpus, err := want.pick(k.CPUs, mapEntries{MaxEntries: k.CPUs[len(k.CPUs)-1] + 1})
	if err != nil {
		return nil, err
	}
	opts, err := want.effective(len(cpus))
	if err != nil {
		return nil, err
	}
	var rings []*Ring
	for i, r := range k.Map(opts.RingBytes, opts.NoTime) {
		rings = append(rings, newRing(cpus[i], r))
	}
	if len(rings) != len(cpus) {
		return nil, fmt.Errorf("simulated kernel: %d rings for %d CPUs", len(rings), len(cpus))
	}
	poll := newChanPoller(k.Wakes)
	r := newReader(rings, kernel{
		poll:   poll,
		clock:  k.Clock,
		grace:  func(grace.Options) (grace.Provider, error) { return simulatedGrace{k.Grace}, k.Grace() },
		lost:   func(ring int) (uint64, bool) { return lostOf(k, ring) },
		slot:   k.Slot,
		unhook: func() error { k.Unhook(); return nil },
		free:   k.Free,
		yield:  k.Yield,
		drive:  k.Barrier,
	}, opts)
	poll.ready = r.ready
	return r, nil
}

func lostOf(k inject.Kernel, ring int) (uint64, bool) {
	if k.Lost == nil {
		return 0, false
	}
	return k.Lost(ring), true
}

// simulatedGrace waits for the programs of a simulated kernel.
type simulatedGrace struct{ wait func() error }

func (simulatedGrace) Name() string  { return "simulated" }
func (g simulatedGrace) Wait() error { return g.wait() }
func (simulatedGrace) Close() error  { return nil }
