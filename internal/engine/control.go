package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
)

// flushed ends waits that have a marker or an error to deliver.
func (r *Reader) flushed() {
	r.waker.flush()
	if src := r.source.Load(); src != nil {
		src.stream.Interrupt()
	}
}

// ErrDisplaced is perfbuf.ErrDisplaced.
var ErrDisplaced = errors.New("perfbuf: another reader has taken the map's entries")

// displaced makes passes end with an error once they have delivered the rings' contents. since is
// when the entries of these CPUs were last seen to be the reader's.
func (r *Reader) displaced(cpus []int, since uint64) {
	if r.Gate.Enter() != nil {
		return
	}
	defer r.Gate.LeaveAtOnce()
	now := r.kernel.Now()
	id, name := r.Parts.Map()
	r.Rings.Fail(now, fmt.Errorf("%w: map %q (id %d), entries of %d CPUs, within the last %v: events of these no longer arrive. For two readers, have programs output "+
		"to two maps; Pause and Resume take this one back", ErrDisplaced, name, id, len(cpus), time.Duration(now-min(since, now)).Round(time.Millisecond)), cpus)
	r.flushed()
}

var errShared = errors.New("another reader of a BPF ring buffer is noticed by chance at best: see RingStats.Shared")

// Displaced says how other readers have changed the map's entries.
func (r *Reader) Displaced() kernel.Displaced {
	if r.ringBuf {
		return kernel.Displaced{Err: errShared}
	}
	return r.Parts.Displaced()
}

// Pause takes the rings out of the map until Resume.
func (r *Reader) Pause() error {
	if r.ringBuf {
		return fmt.Errorf("perfbuf.Pause: a BPF ring buffer cannot be paused: detach its programs instead: %w", errors.ErrUnsupported)
	}
	return r.control("Pause", r.Entries.Pause)
}

// Resume puts the rings back.
func (r *Reader) Resume() error { return r.control("Resume", r.Entries.Resume) }

func (r *Reader) control(name string, call func() error) error {
	if err := r.Gate.Enter(); err != nil {
		return err
	}
	defer r.Gate.LeaveAtOnce()
	if err := call(); err != nil {
		return fmt.Errorf("perfbuf.%s: %w", name, err)
	}
	return nil
}

// programsEnded returns a channel that reports when every running program has ended, or why that
// cannot be known. It allows the barriers that the open stream allows.
func (r *Reader) programsEnded() <-chan error {
	var allow grace.Set
	if src := r.source.Load(); src != nil {
		allow = src.stream.opts.Barriers
	}
	return grace.ProgramsEnded(r.kernel.Grace, allow, r.Barrier.Load())
}
