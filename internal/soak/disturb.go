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

// disturb calls Pause, Resume and Flush at random while a reader is read, until stop, which returns when
// it has ended. Then the reader is not paused.
func (s *session) disturb(g *generation) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	begin := func(on bool, f func(*rand.Rand) error) {
		if !on {
			return
		}
		rnd := rand.New(rand.NewPCG(s.c.seed, s.rnd.Uint64()))
		all.Go(func() {
			for sleep(ctx, rnd, 20*time.Millisecond) {
				if err := f(rnd); errors.Is(err, os.ErrClosed) {
					return
				} else if err != nil {
					s.l.violate("%v", err)
					return
				}
			}
		})
	}
	begin(g.pausing, func(rnd *rand.Rand) error {
		if err := g.r.Pause(); err != nil {
			return err
		}
		g.pauses.Add(1)
		sleep(ctx, rnd, 5*time.Millisecond)
		return g.r.Resume()
	})
	begin(s.c.flushes && g.mode != "rings", func(*rand.Rand) error { // passes over single rings deliver no markers
		seen, err := s.p.witness()
		if err != nil {
			return err
		}
		s.l.markers.call(seen)
		return g.r.Flush()
	})
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
