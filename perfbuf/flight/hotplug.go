package flight

import (
	"math"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// follow opens rings for CPUs that come online, and new events for CPUs that come back. It looks
// regularly whether the map's entries are still the recorder's.
func (r *Recorder) follow() {
	parts := kernel.PartsOf(r.kernel)
	r.hotplug.Init(engine.FollowerOptions{
		Kernel: &parts, Gate: &r.gate, Len: func() int { return len(r.now()) }, Room: math.MaxInt, Add: r.add, Renew: r.renew,
	})
	r.hotplug.Start()
	r.kernel.Watch(nil)
}

// add appends a ring, which is not in the map yet.
func (r *Recorder) add(memory *raw.Ring) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings = append(r.rings, ring{memory, never})
}

// renew puts a ring's perf event into the map. The ring is complete once all outputs find it there,
// and no sooner.
func (r *Recorder) renew(i int) error {
	r.begin(i, never)
	if err := r.kernel.Set(i, kernel.Plain); err != nil {
		return err
	}
	if err := r.provider.Wait(); err != nil {
		return err
	}
	r.begin(i, r.kernel.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Plugged++
	return nil
}

func (r *Recorder) begin(i int, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings[i].began = at
}
