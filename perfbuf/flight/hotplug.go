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
	r.connect(func(memory *raw.Ring) { r.add(memory, never) }, r.renew)
	r.hotplug.Start()
	r.parts.Displaceable.Watch(nil)
}

// connect gives the follower the functions that it calls.
func (r *Recorder) connect(add func(*raw.Ring), renew func(int) error) {
	r.hotplug.Init(engine.FollowerOptions{
		Kernel: &r.parts, Gate: &r.gate, Len: func() int { return len(r.now()) }, Room: math.MaxInt, Add: add, Renew: renew,
	})
}

// renew puts a ring's perf event into the map. The ring is complete once all outputs find it there,
// and no sooner.
func (r *Recorder) renew(i int) error {
	r.begin(i, never)
	if err := r.parts.Set(i, kernel.Plain); err != nil {
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
