//go:build linux && cgo

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// disturb calls Pause, Resume and Flush at random, and has sources come and go, while a reader is
// read, until stop, which returns when it has ended. Then the reader is not paused, and all sources
// are there.
func (s *session) disturb(g *generation) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	begin := func(on bool, often time.Duration, f func(*rand.Rand) error) {
		if !on {
			return
		}
		rnd := rand.New(rand.NewPCG(s.c.seed, s.rnd.Uint64()))
		all.Go(func() {
			for sleep(ctx, rnd, often) {
				if err := f(rnd); errors.Is(err, os.ErrClosed) {
					return
				} else if err != nil {
					s.l.violate("%v", err)
					return
				}
			}
		})
	}
	begin(g.pausing, 20*time.Millisecond, func(rnd *rand.Rand) error {
		if err := g.r.Pause(); err != nil {
			return err
		}
		g.pauses.Add(1)
		sleep(ctx, rnd, 5*time.Millisecond)
		return g.r.Resume()
	})
	// A single ring's marker covers one CPU.
	begin(s.c.flushes && g.mode != "rings", 20*time.Millisecond, func(*rand.Rand) error {
		seen, err := s.p.Counts()
		if err != nil {
			return err
		}
		s.l.markers.call(seen)
		g.streaming.Lock()
		stream := g.stream
		g.streaming.Unlock()
		return stream.Flush()
	})
	begin(g.changes != nil, 5*time.Millisecond, func(rnd *rand.Rand) error { return s.change(ctx, g, rnd) })
	return func() {
		cancel()
		all.Wait()
	}
}

// sleep takes a random time, up to most. It reports whether ctx is not done.
func sleep(ctx context.Context, rnd *rand.Rand, most time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(rnd.Int64N(int64(most)))):
		return ctx.Err() == nil
	}
}
