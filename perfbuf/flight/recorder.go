// Package flight is a flight recorder: it keeps the newest events of a BPF perf event array, or of
// BPF ring buffers with the flag BPF_F_RB_OVERWRITE (Linux 6.19), in memory. It returns those that
// happened before you ask, for example because an error occurred. Until then nothing reads the
// rings, so an idle recorder only looks, every 2 seconds, whether it still has a perf event array.
//
// For a perf event array, a [Recorder] opens one ring per CPU, in which the kernel overwrites the
// oldest events. An output never fails for lack of room, wakes no reader, and costs what any output
// costs. What differs for BPF ring buffers: see [Open].
// [Recorder.Snapshot] copies the rings while programs keep writing. A [Snapshot] has the events of
// all CPUs in order of time. It is exact at both ends: it has every event from
// [Snapshot.CompleteSince] to [Snapshot.Until].
//
//	rec, err := flight.Open(mapFD, flight.Options{MaxBytes: 64 << 20})
//	...
//	snap, err := rec.Snapshot(ctx) // when something went wrong
//	for ev := range snap.Events() {
//		...
//	}
//	snap.Release()
//
// [Snapshot.WriteTo] writes a perf.data file, for perf script and package perfdata. A perf event
// array has one reader: while a Recorder has it, no perfbuf.Reader receives its events. A reader
// that opens the map later takes it from the Recorder: see [Recorder.Displaced]. The names are
// those of [runtime/trace.FlightRecorder], which does this for Go's own events.
package flight

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// Recorder records into overwritable rings. Its methods may be called from any goroutine.
type Recorder struct {
	opts     Options
	kernel   kernel.Kernel
	parts    kernel.Parts   // of it
	provider grace.Provider // waits for outputs and programs that are under way
	hotplug  engine.Follower
	nested   int  // bounds the outputs to a ring that run at once
	look     bool // snapshots look for more ring buffers in the map

	turn chan struct{} // full while a snapshot is taken
	gate engine.Gate   // guards ring memory
	err  error         // of Close

	mu    sync.Mutex
	rings []ring                  // only the follower changes them
	spare map[*raw.Ring]*ringCopy // of the latest snapshot that was released
	stats Stats
}

// ring is an overwritable ring, and the time since which it has received all outputs on its CPU.
type ring struct {
	*raw.Ring
	began uint64
}

// never is when a ring begins until all outputs find its perf event.
const never = math.MaxUint64 - 1

// newRecorder takes over the rings, which began at a time. The provider has waited since they are
// in the map.
func newRecorder(k kernel.Kernel, p grace.Provider, o Options, began uint64, nested int) *Recorder {
	r := &Recorder{opts: o, kernel: k, parts: kernel.PartsOf(k), provider: p, nested: nested, turn: make(chan struct{}, 1)}
	r.gate.Open(r.finish)
	for _, memory := range k.Rings() {
		r.add(memory, began)
	}
	return r
}

// add appends a ring. Follower calls it, or Snapshot.
func (r *Recorder) add(memory *raw.Ring, began uint64) {
	memory.SetFields(r.opts.Time.Offset(), r.opts.CPU.Offset())
	memory.SetSource(r.opts.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings = append(r.rings, ring{memory, began})
}

// now returns the rings that are open now.
func (r *Recorder) now() []ring {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.rings)
}

// Options returns the options in effect: defaults filled in, sizes rounded.
func (r *Recorder) Options() Options { return r.opts }

// Snapshot copies the rings. It has every event output before the call that the rings still held at
// the call, and none output after it. Recording goes on. Snapshots may follow each other at any
// rate, and each has all that the rings hold.
//
// Once another reader has taken entries of the map, a snapshot ends when they were last seen to be
// the Recorder's: see [Snapshot.Until] and [Recorder.Displaced].
//
// It blocks for two RCU grace periods (see perfbuf.Barriers) and the copying, about 0.1 ms per MiB.
// It leaves out the oldest events if they are overwritten meanwhile; Options.Pause avoids that. It
// also blocks while another Snapshot runs. Programs never wait.
//
// Errors are context.Cause(ctx), os.ErrClosed after [Recorder.Close], and failures of the grace
// periods. A snapshot takes as much memory as the rings, and up to a sixth more to sort by time;
// [Snapshot.Release] keeps it for the next one.
func (r *Recorder) Snapshot(ctx context.Context) (*Snapshot, error) {
	if err := r.gate.Enter(); err != nil {
		return nil, fmt.Errorf("flight.Recorder.Snapshot: %w", err)
	}
	defer r.gate.Leave()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-r.gate.Done():
		return nil, fmt.Errorf("flight.Recorder.Snapshot: %w", os.ErrClosed)
	case r.turn <- struct{}{}:
	}
	defer func() { <-r.turn }()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	began := time.Now()
	s := &Snapshot{copies: r.room(0)}
	s.release = func() { r.release(s.copies) }
	t0, until, err := r.take(ctx, s)
	if err != nil {
		s.Release()
		return nil, err
	}
	s.index(t0, until, r.opts)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Snapshots++
	if r.opts.MinAge > 0 && s.Age() < r.opts.MinAge {
		r.stats.Short++
	}
	r.stats.LastTook = time.Since(began)
	return s, nil
}

// take copies the rings once they hold all events with times up to t0, the time of the call. Events
// after until may be missing, because the recorder may not have owned all entries.
func (r *Recorder) take(ctx context.Context, s *Snapshot) (t0, until uint64, err error) {
	began := time.Now()
	// The wait does not cover a program that begins during it. So start the wait when all CPUs'
	// clocks are past t0: events of such a program are later than t0.
	for t0 = r.kernel.Now(); r.kernel.Now() <= t0+grace.DefaultGuard; {
	}
	if r.opts.Pause {
		rings := r.kernel.(pausable)
		defer func() {
			if failed := rings.Pause(false); err == nil {
				err = failed
			}
		}()
		if err := rings.Pause(true); err != nil {
			return 0, 0, err
		}
	}
	if err := r.provider.Wait(); err != nil {
		return 0, 0, fmt.Errorf("flight.Recorder.Snapshot: waiting for outputs under way: %w", err)
	}
	// Programs that began before t0 have ended. If the recorder owns all entries now, its rings
	// received all their outputs. An output that found another reader's entry has a time later than
	// OwnedUntil, unless its CPU's clock is behind.
	until = t0
	if d := r.parts.Displaced(); d.Entries > 0 {
		until = min(t0, d.OwnedUntil-grace.DefaultGuard)
	}
	if r.look { // the map has had all ring buffers that these programs output to
		if err := r.hotplug.Replug(); err != nil {
			return 0, 0, fmt.Errorf("flight.Recorder.Snapshot: %w", err)
		}
		if r.gate.Closed().Load() { // then it has not looked
			return 0, 0, fmt.Errorf("flight.Recorder.Snapshot: %w", os.ErrClosed)
		}
		s.copies = append(s.copies, r.room(len(s.copies))...)
	}
	copies := s.copies
	if r.opts.Pause { // no program can output now
		for _, c := range copies {
			c.take()
			c.check()
		}
		return t0, until, nil
	}
	// A ring may be overwritten from the start of its copy to the end of the wait that validates
	// it. So one wait serves as many rings as take as long to copy as the wait itself.
	waited := time.Since(began)
	for len(copies) > 0 {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		n := 0
		for began = time.Now(); n < len(copies) && (n == 0 || time.Since(began) < waited); n++ {
			copies[n].take()
		}
		// The copies precede the wait. An output that begins during the wait stores its bytes after
		// the wait began, so the copies do not contain them (the guarantee of synchronize_rcu in
		// Documentation/RCU/Design/Requirements).
		if err := r.provider.Wait(); err != nil {
			return 0, 0, fmt.Errorf("flight.Recorder.Snapshot: waiting for outputs under way: %w", err)
		}
		for _, c := range copies[:n] {
			c.check()
		}
		copies = copies[n:]
	}
	return t0, until, nil
}

// pausable is a kernel whose rings can refuse outputs.
type pausable interface{ Pause(on bool) error }

// room returns memory for copies of all rings but the first few.
func (r *Recorder) room(but int) (copies []*ringCopy) {
	r.mu.Lock()
	spare := r.spare
	r.spare = nil
	r.mu.Unlock()
	for _, ring := range r.now()[but:] {
		c := spare[ring.Ring]
		if c == nil {
			c = newCopy(ring.Ring, r.nested)
		}
		c.began = ring.began
		copies = append(copies, c)
	}
	return copies
}

// release takes memory back.
func (r *Recorder) release(copies []*ringCopy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spare == nil && !r.gate.Closed().Load() {
		r.spare = make(map[*raw.Ring]*ringCopy, len(copies))
		for _, c := range copies {
			r.spare[c.live] = c
		}
	}
}

// Close takes the rings out of the map and unmaps them. Outputs then fail with ENOENT. Snapshots
// that were taken stay as they are. It blocks while a Snapshot is taken. The error names the map
// entries that it could not empty: outputs to these fail, too. Further calls return the same error.
func (r *Recorder) Close() error {
	if r.gate.Close() {
		r.hotplug.Stop()
		r.gate.Leave()
	}
	<-r.gate.Final()
	return r.err
}

// The last user to leave calls finish.
func (r *Recorder) finish() {
	r.err = r.kernel.Unhook()
	r.count()
	r.provider.Close()
	r.kernel.Free()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spare = nil
}

// count updates the counts that the kernel keeps.
func (r *Recorder) count() {
	written, refused := uint64(0), uint64(0)
	for i, ring := range r.now() {
		n, _ := r.parts.Lost(i)
		refused += n
		if head := ring.Head(); ring.Layout() == raw.LayoutRingBuf {
			written += head
		} else {
			written -= head // it counts down from 0
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Written, r.stats.Refused = written, refused
}
