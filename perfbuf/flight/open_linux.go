package flight

import (
	"fmt"
	"math"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/perfevent"
)

// Open begins to record the perf event array that mapFD refers to. Open duplicates it; you may
// close yours. From then on outputs to the map land in the recorder's rings, and another reader of
// the map receives nothing until it is restarted. To trigger on events, or to both read and record
// them, have programs output to two maps.
//
// Open blocks for an RCU grace period, and the first call of a process for some 10 ms more. It
// returns the errors of [perfbuf.Open], and an error if it cannot wait for a grace period. It calls
// perf_event_open with write_backward, and mmap with PROT_READ alone.
func Open(mapFD int, opts Options) (*Recorder, error) {
	var o Options // in effect
	k, err := kernel.OpenOnline(&perfevent.Map{FD: mapFD, Overwrite: true}, func(online []int) (s kernel.Setup, err error) {
		o, s.CPUs, s.RingBytes, err = opts.effective(online)
		s.Follow = opts.CPUs
		// No wakeups, as nothing polls. The kernel notes a crossed watermark once per lap instead
		// of twice (rb->watermark in ring_buffer_init, kernel/events/ring_buffer.c).
		s.WakeupBytes = math.MaxInt32
		return s, err
	})
	if err != nil {
		return nil, err
	}
	// This waits for outputs that have found the map's previous entries.
	provider, err := k.Grace(grace.Options{Allow: grace.Set(opts.Barriers), Programs: true})
	if err != nil {
		kernel.Discard(k)
		return nil, fmt.Errorf("flight.Open: %w", err)
	}
	r := newRecorder(k.(rings), provider, o)
	r.follow()
	return r, nil
}
