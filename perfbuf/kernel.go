package perfbuf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/inject"
	"github.com/ringfold/ringfold/internal/raw"
)

// kernel is what a Reader asks of the kernel, apart from the rings' memory.
type kernel struct {
	poll  poller
	clock func() uint64 // CLOCK_MONOTONIC in ns, as the kernel stamps events

	// grace opens a way to wait for running programs, and has then waited once.
	grace func(grace.Options) (grace.Provider, error)
	// lost is how many outputs to a ring have failed for want of room (PERF_FORMAT_LOST); ok is false
	// if the kernel does not know. It interrupts the ring's CPU.
	lost func(ring int) (n uint64, ok bool)
	// outputs is what programs have counted themselves.
	outputs *outputs

	slot   func(ring int, to inject.Slot) error // sets a ring's entry in the map; nil: it cannot be changed
	plug   plug                                 // nil: no CPUs come or go
	cpus   []int                                // that may have a ring some day; nil: those that have one
	unhook func() error                         // takes the rings out of the map, for good, or at least ends outputs to them
	free   func()                               // unmaps them, and lets the map go

	// For simulations; nil otherwise. See internal/inject.
	yield func()
	drive func(*grace.Barrier)
}

func (k *kernel) pause() {
	if k.yield != nil {
		k.yield()
	}
}

// waitForPrograms opens a way to wait for running programs. All that were running have ended when it
// returns.
func (r *Reader) waitForPrograms(sweep bool) (grace.Provider, error) {
	return r.grace(grace.Options{CPUs: r.cpus, Sweep: sweep})
}

// quiesce waits until every program that is running has ended.
func (r *Reader) quiesce(ctx context.Context, sweep bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	select {
	case err := <-r.programsEnded(sweep):
		if err != nil {
			return fmt.Errorf("perfbuf.Drain: cannot wait for running programs, ForEachPending does not: %w", err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.done:
		return os.ErrClosed
	}
}

// programsEnded says when every program that is running has ended, or why it cannot. The barrier of
// an open stream may do what cannot be opened any more, after the process has dropped privileges.
func (r *Reader) programsEnded(sweep bool) <-chan error {
	done := make(chan error, 1)
	go func() {
		p, err := r.waitForPrograms(sweep)
		if err == nil {
			err = p.Close()
		} else if b := r.barrier.Load(); b != nil && b.Round() == nil {
			err = nil
		}
		done <- err
	}()
	return done
}

// Drain is [Reader.ForEach] for the end: after the caller has detached its programs, it waits until
// those that are still running have ended, and then calls f for all that the rings hold. Losses that
// no record has reported are not among that, but in Stats, after Close. It blocks for an RCU grace
// period, some ms as a rule. Errors are those of ForEach, context.Cause(ctx), and what keeps it from
// waiting.
func (r *Reader) Drain(ctx context.Context, f func(Event) error) error {
	if err := r.quiesce(ctx, false); err != nil {
		return err
	}
	return r.ForEach(f)
}

// mostSettling bounds how long Close takes where a program, or a virtual CPU, does not get on: it
// takes a grace period a hundred times as long as usual.
const mostSettling = time.Second

// settle makes the counts final: nothing is written to the rings any more once the programs that
// were running at the time of unhook have ended, nobody reads them, and they are still mapped.
func (r *Reader) settle() {
	select {
	case <-r.programsEnded(false):
	case <-time.After(mostSettling):
	}
	r.outputs.settle()
	s := r.stream.Load() // was open when the reader was closed
	for i, ring := range r.all() {
		from, held, known, advance := ring.raw.Tail(), 0, ring.counts.lost.Load(), ring.advance
		if s != nil && i < len(s.rings) {
			from, held, known, advance = s.merger.Scanned(i), s.merger.Held(i), s.known(i), s.merger.Advance(i)
		}
		samples, lost := ring.count(from)
		ring.counts.dropped.Add(uint64(held) + samples)
		total, ok := r.lost(i)
		if !ok {
			total = max(known+lost-min(lost, advance), r.outputs.full(ring.cpu))
		}
		ring.counts.lost.Store(total)
	}
}

// countUnreported has Stats know of the losses that no record has reported, from Linux 6.0 on: those of
// rings that nobody reads. It interrupts their CPUs.
func (r *Reader) countUnreported() {
	if r.enter() != nil {
		return
	}
	defer r.leave()
	for i, ring := range r.all() {
		if ring.claim(folding) != nil {
			continue
		}
		total, ok := r.lost(i)
		if known := ring.counts.lost.Load(); ok && total > known {
			ring.counts.lost.Store(total)
			ring.advance += total - known
		}
		ring.disclaim()
	}
}

// count returns how many samples and reported losses a ring holds from an offset on.
func (r *Ring) count(off uint64) (samples, lost uint64) {
	var rec raw.Record
	for head := r.raw.Head(); off != head; off += rec.Size {
		switch r.raw.Parse(off, head, &rec); rec.Kind {
		case raw.Sample:
			samples++
		case raw.Lost:
			lost += rec.Lost
		}
	}
	return samples, lost
}

var errNoGrace = errors.New("no way to wait for programs")
