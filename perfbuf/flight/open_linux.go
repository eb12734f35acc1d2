package flight

import (
	"fmt"
	"math"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/perfevent"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringbuf"
)

// Open begins to record the map that mapFD refers to: a perf event array, or a BPF ring buffer with
// the flag BPF_F_RB_OVERWRITE (Linux 6.19), or an array or hash of maps with such ring buffers,
// such as one per CPU. Open duplicates mapFD; you may close yours.
//
// From then on outputs to a perf event array land in the recorder's rings, and another reader of
// the map receives nothing until it is restarted. To trigger on events, or to both read and record
// them, have programs output to two maps.
//
// A BPF ring buffer keeps its newest records itself, from its creation on. Open only maps it, so a
// map may have any number of recorders, and Close changes nothing for programs. Each snapshot looks
// for ring buffers that were stored in an array or hash since, and goes on to have those that were
// taken out, until Close. What differs:
//
//   - An output fails while a record that is a whole ring older is reserved and not submitted, and
//     in an NMI that interrupts another output to the same ring buffer. The kernel does not count
//     these, and no snapshot shows them. Programs learn of it: bpf/perfbuf_ringbuf.h counts them.
//   - [Snapshot.CompleteSince] supposes that a program takes its time before it reserves the
//     record, and that at most six programs per CPU are between the two at once. If it takes the
//     time later, as a [perfbuf.StampedTime] is, events may be missing after CompleteSince that it
//     reserved before. These are few: it was interrupted in between, or it sleeps.
//   - Grace periods do not wait for sleepable programs. What these submit after the call of
//     Snapshot is missing from it.
//
// Open blocks for an RCU grace period, and the first call of a process for some 10 ms more. It
// returns the errors of [perfbuf.Open] or [perfbuf.OpenRingBuf], and an error if it cannot wait for
// a grace period. For a perf event array it calls perf_event_open with write_backward. It maps
// rings with PROT_READ alone.
func Open(mapFD int, opts Options) (*Recorder, error) {
	if ringbuf.Is(mapFD) {
		return openRingBuf(mapFD, opts)
	}
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
	provider, err := graceOf(k, opts)
	if err != nil {
		return nil, err
	}
	r := newRecorder(k, provider, o, k.Now(), nested)
	r.follow()
	return r, nil
}

func openRingBuf(mapFD int, opts Options) (*Recorder, error) {
	if err := opts.effectiveRingBuf(); err != nil {
		return nil, err
	}
	possible, err := cpulist.Possible(cpulist.Dir)
	if err != nil {
		return nil, fmt.Errorf("flight.Open: %w", err)
	}
	none := func([]int) (s kernel.Setup, err error) { return s, nil }
	k, err := kernel.OpenOnline(&ringbuf.Opener{FD: mapFD, Overwrite: true}, none)
	if err != nil {
		return nil, err
	}
	provider, err := graceOf(k, opts)
	if err != nil {
		return nil, err
	}
	r := newRecorder(k, provider, opts, 0, nested*len(possible)) // all CPUs may output to each
	if r.parts.Hotplug != nil {
		r.look = true
		r.connect(func(memory *raw.Ring) { r.add(memory, 0) }, func(int) error { return nil })
	}
	return r, nil
}

func graceOf(k kernel.Kernel, opts Options) (grace.Provider, error) {
	provider, err := k.Grace(grace.Options{Allow: grace.Set(opts.Barriers), Programs: true})
	if err != nil {
		kernel.Discard(k)
		err = fmt.Errorf("flight.Open: %w", err)
	}
	return provider, err
}
