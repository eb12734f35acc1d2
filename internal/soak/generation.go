//go:build linux && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// generation is the life of one Reader on the map.
type generation struct {
	mode      string
	r         *perfbuf.Reader
	more      []*perfbuf.Reader // of -mode sources: of the other maps
	changes   *changes          // of these; nil: none
	stream    *perfbuf.Stream   // nil: it is read ring by ring
	streaming sync.Mutex        // held to replace the stream, and by others to load it
	ordered   bool
	pausing   bool // Pause is called
	pauses    atomic.Uint64
	streams   int                  // that were opened, one after the other
	floor     []workload.CPUCounts // after it was opened
	rings     []perfbuf.RingStats  // of r, when they were settled
	end       ending

	payloadTime, dropLate bool
}

// ending is how a generation ends.
type ending int

const (
	shutdown ending = iota // Shutdown, while programs output
	closed                 // Close, while programs output and a goroutine reads
	reopened               // Close in the event function, and the next Open at once
	drained                // programs are detached and the rest is drained: the last ending
)

// open begins a generation.
func (s *session) open(mode string) (*generation, error) {
	c := s.c
	if c.vary {
		c.varyOptions(s.rnd)
	}
	c.mode = mode
	ringOptions, orderOptions := c.options()
	r, err := perfbuf.Open(s.p.FD(workload.Events), ringOptions)
	if err != nil {
		return nil, err
	}
	g := &generation{
		mode: mode, r: r, ordered: isOrdered(mode), pausing: c.pauses && (!c.vary || s.rnd.IntN(2) == 0),
		payloadTime: c.time == "payload", dropLate: c.dropLate,
	}
	if mode == "sources" {
		if err := s.openMaps(g, ringOptions, orderOptions); err != nil {
			g.close()
			return nil, err
		}
		g.streams++
	} else if mode != "rings" {
		if !g.ordered {
			orderOptions = perfbuf.StreamOptions{Order: perfbuf.Unordered()}
		}
		if g.stream, err = r.Stream(orderOptions); err != nil {
			r.Close()
			return nil, err
		}
		g.streams++
	}
	if g.floor, err = s.p.Counts(); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// whole makes the stream one of all rings, for the end.
func (g *generation) whole() (err error) {
	if g.stream == nil {
		g.stream, err = g.r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	}
	return err
}

// generation reads for a while by one mode, ends it, and settles accounts.
func (s *session) generation(ctx context.Context, mode string, until time.Time, end ending) (err error) {
	g := s.next
	if s.next = nil; g == nil {
		if g, err = s.open(mode); err != nil {
			return err
		}
	}
	defer g.close()
	s.group = append(s.group, g)
	s.l.ordered = g.ordered
	s.l.kernelTime = !g.ordered || !g.payloadTime
	s.l.last, s.l.changing, s.l.watermark = 0, g.changes != nil, nil
	if g.ordered && mode != "slack" {
		s.l.watermark = func() uint64 { return g.stream.Watermark() }
	}
	s.l.markers.restart(g.floor)
	if err := s.start(g); err != nil {
		return err
	}
	stop := s.disturb(g)
	defer stop()
	if end == closed {
		err = s.readAndClose(ctx, g, until)
	} else if err = s.read(ctx, g, until); err == nil && end == reopened && ctx.Err() == nil {
		err = s.reopen(ctx, g)
	}
	stop()
	if g.more != nil { // nothing can be taken out of a ring buffer
		if err := s.p.Aim(workload.Events, false); err != nil {
			return err
		}
	}
	switch {
	case s.next != nil:
		g.end = reopened
		return nil // accounts are settled with the next
	case end == closed && errors.Is(err, os.ErrClosed):
		g.end = closed
	case err != nil:
		return err
	case end == drained || ctx.Err() != nil:
		g.end = drained
		err = s.drain(g)
	default:
		s.look(g)
		if err = g.whole(); err == nil {
			err = g.stream.Shutdown(context.Background(), s.rest)
		}
		if err != nil {
			err = fmt.Errorf("shutdown: %w", err)
		}
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	if n := s.l.markers.open(); n > 0 && g.end != closed && mode != "rings" {
		s.l.violate("%s: %d calls of Flush had no marker", mode, n)
	}
	return s.settle(s.modes[mode])
}

// readAndClose has another goroutine close the reader when it is time. The error is that it is
// closed, unless ctx is done before.
func (s *session) readAndClose(ctx context.Context, g *generation, until time.Time) error {
	done := make(chan struct{})
	timer := time.AfterFunc(time.Until(until), func() {
		defer close(done)
		s.look(g)
		g.r.Close()
	})
	err := s.read(ctx, g, time.Time{})
	if !timer.Stop() {
		<-done
		return os.ErrClosed
	}
	return err
}

// read reads by the ways of the mode, each for a stint, until it is time, the reader is closed, or
// ctx is done. The error is nil unless it is closed.
func (s *session) read(ctx context.Context, g *generation, until time.Time) error {
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	for ctx.Err() == nil {
		if err := s.stint(ctx, g, time.Duration(s.rnd.Int64N(int64(time.Second)))); err != nil {
			return err
		}
		s.progress()
		if g.ordered && g.more == nil && s.c.reopen && s.rnd.IntN(4) == 0 {
			if err := s.restream(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// stint reads by one way. The end of a context loses nothing: the next goes on there.
func (s *session) stint(ctx context.Context, g *generation, d time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, errOver)
	defer cancel()
	if g.mode == "rings" {
		return s.over(ctx, readRings(ctx, g.r, s.l))
	}
	all := ways[g.mode]
	read := all[s.rnd.IntN(len(all))]
	for {
		err := read(ctx, g.stream, s.l)
		if err == nil || errors.Is(err, perfbuf.ErrStop) { // the ledger wanted it
			continue
		}
		return s.over(ctx, err)
	}
}

// over is nil if err is the end of ctx.
func (s *session) over(ctx context.Context, err error) error {
	if ctx.Err() != nil && err == context.Cause(ctx) {
		return nil
	}
	return err
}

// restream replaces the stream on the same reader. Events that the first one had seen are dropped.
func (s *session) restream(g *generation) error {
	order := g.stream.Options()
	g.stream.Close()
	next, err := g.r.Stream(order)
	if err != nil {
		return err
	}
	g.streaming.Lock() // disturb flushes it
	g.stream = next
	g.streaming.Unlock()
	g.streams++
	s.l.last = 0
	floor, err := s.p.Counts()
	if err != nil {
		return err
	}
	s.l.markers.restart(floor)
	return nil
}

// reopen closes the reader from within the function that events are handed to, and opens the next
// before that returns: the old one is still in use.
func (s *session) reopen(ctx context.Context, g *generation) error {
	s.l.close = func() (err error) {
		s.look(g)
		g.r.Close()
		s.next, err = s.open(g.mode)
		return err
	}
	defer func() { s.l.close = nil }()
	s.l.countdown = 1 + s.rnd.IntN(2000)
	return s.stint(ctx, g, time.Second)
}

// drain ends all: programs are detached while they output, and the stream ends complete.
func (s *session) drain(g *generation) error {
	s.ended = time.Now()
	s.cpuUsed = cpuTime() - s.cpuBegan
	if err := s.p.detach(); err != nil {
		return err
	}
	if err := errors.Join(s.load.Stop(), s.spawn.stop()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience,
		fmt.Errorf("programs still run %v after they were detached", patience))
	defer cancel()
	s.look(g)
	// What is left has waited for the load to stop, and says nothing of latency.
	s.l.timed = false
	if err := g.whole(); err != nil {
		return err
	}
	if err := g.stream.Drain(ctx, s.rest); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	g.close()
	return nil
}

// rest is deliver for events that remain at the end.
func (s *session) rest(ev perfbuf.Event) error {
	s.l.take(ev)
	return nil
}

// look checks that no output was refused for want of a ring, unless Pause was called. It is for
// just before the ring is taken away.
func (s *session) look(g *generation) {
	if g.pausing || g.changes != nil || s.c.hotplug {
		return
	}
	seen, err := s.p.Counts()
	if err != nil {
		s.l.violate("%v", err)
		return
	}
	for cpu := range seen {
		for level := range seen[cpu].Levels {
			d := seen[cpu].Levels[level].Since(g.floor[cpu].Levels[level])
			if d.NoRing > 1 || d.Off > 1 { // one may have been under way
				s.l.violate("CPU %d level %d: %d outputs found no ring, %d found it off, while a reader was open", cpu, level, d.NoRing, d.Off)
			}
		}
	}
}
