package perfdata

import (
	"io"
	"maps"
	"os"
	"slices"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// replay is the kernel that outputs a recording's events. It fills rings when it is asked to wait,
// or for the time.
type replay struct {
	*recording
	poller
	o      ReplayOptions
	cpus   map[int]uint64 // and the bytes that their rings will have in all
	places []place        // nil: the file is in order
	memory []*raw.Ring

	// What follows is under the session's mu.
	since   uint64 // earlier records are left out
	rings   map[int]*ring
	at      int64 // of the next record in the file
	index   int   // or in places
	next    entry
	pending bool  // next is still to be put
	err     error // why there is no more

	// Of a live recording; the last three are under its mu.
	live   *Live
	queue  []queued
	taken  bool           // the first of them is next, or was
	latest map[int]uint64 // the time of each CPU's latest sample
}

// RingBuf is false, whatever was recorded.
func (k *replay) RingBuf() bool { return false }

// Online returns the CPUs of the recording, one if it is empty.
func (k *replay) Online() ([]int, error) {
	if len(k.cpus) == 0 {
		return []int{0}, nil
	}
	return slices.Sorted(maps.Keys(k.cpus)), nil
}

// Open makes the rings.
func (k *replay) Open(setup kernel.Setup) (kernel.Kernel, error) {
	k.rings = map[int]*ring{}
	layout := raw.LayoutRawTime
	if k.live != nil { // one ring for all CPUs
		layout = raw.LayoutRawTimeCPU
	}
	for _, cpu := range setup.CPUs {
		r, err := newRing(cpu, setup.RingBytes, k.cpus[cpu], layout)
		if err != nil {
			return nil, err
		}
		k.rings[cpu] = r
		k.memory = append(k.memory, r.raw)
	}
	s := newSession(k.o.Speed)
	s.members = []*replay{k}
	k.session.Store(s)
	k.rewind(k.last)
	s.feed()
	return k, nil
}

// Close has nothing to close: Open of this package does.
func (k *replay) Close() {}

// read makes next the next record in time.
func (k *replay) read() error {
	if k.live != nil {
		return k.readLive()
	}
	for {
		if k.places != nil {
			if k.index == len(k.places) {
				return k.ended()
			}
			k.at = k.places[k.index].off
			k.index++
		}
		b, next, err := k.record(k.at)
		switch {
		case err != nil:
			return err
		case b == nil && k.places != nil: // the file has changed since
			return k.bad(k.at, "the record is gone: the file was changed while it was read")
		case b == nil:
			return k.ended()
		}
		var ok bool
		if k.next, ok = k.entry(b); !ok {
			return k.bad(k.at, "the record is not what it was: the file was changed while it was read")
		}
		k.at = next
		if k.pending = k.next.kind != other && k.next.time >= k.since; k.pending {
			return nil
		}
	}
}

// ring is where the next record goes, nil if its CPU is left out. A counted loss may name a CPU
// that no event names: events of a ring buffer need not say theirs.
func (k *replay) ring() *ring {
	if k.live != nil {
		return k.rings[-1]
	}
	if _, ok := k.cpus[k.next.cpu]; !ok && k.next.counted {
		return k.rings[k.home]
	}
	return k.rings[k.next.cpu]
}

// isRead reports whether the rings are empty.
func (k *replay) isRead() bool {
	return !slices.ContainsFunc(k.memory, func(r *raw.Ring) bool { return r.Tail() != r.Head() })
}

// Now is a time up to which all events are in the rings, as far as barriers ask for that.
func (k *replay) Now() uint64 {
	s := k.lock()
	defer s.mu.Unlock()
	s.looked = true
	next, bound := s.feed()
	return s.clock.now(s, next, bound)
}

// Rings returns the rings.
func (k *replay) Rings() []*raw.Ring { return k.memory }

// Unhook does nothing.
func (k *replay) Unhook() error { return nil }

// Free closes the file.
func (k *replay) Free() {
	s := k.lock()
	defer s.mu.Unlock()
	k.err = os.ErrClosed
	if k.live != nil {
		k.live.drop(k)
	}
	if f, ok := k.blocks.f.(io.Closer); ok {
		f.Close()
	}
}

// Grace has nothing to wait for: programs ran long ago.
func (k *replay) Grace(grace.Options) (grace.Provider, error) { return ago{}, nil }

type ago struct{}

func (ago) Name() string { return "recording" }
func (ago) Wait() error  { return nil }
func (ago) Close() error { return nil }
func (ago) Past()        {}
