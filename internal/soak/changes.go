//go:build linux && cgo

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// changes counts how often a generation's sources leave and return. The first map's source stays,
// and its account is exact.
type changes struct {
	ringOptions perfbuf.Options
	n           atomic.Uint64
	closed      [len(mapNames)]perfbuf.Stats // sums over the readers of each map that are closed
}

// change takes a source out of the stream and puts it back, or another reader of its map.
func (s *session) change(ctx context.Context, g *generation, rnd *rand.Rand) error {
	m := 1 + rnd.IntN(len(g.more))
	old := g.more[m-1]
	if err := g.stream.Remove(old); err != nil {
		return err
	}
	if rnd.IntN(2) == 0 {
		old.Close() // the stream may be reading it
		if isRingBuf(m) {
			<-old.Done() // or both would count a loss
		}
		r, err := s.openMap(m, g.changes.ringOptions)
		if err != nil {
			return err
		}
		<-old.Done() // no event of it comes from now on
		g.changes.closed[m] = sumStats(g.changes.closed[m], old.Stats())
		g.more[m-1] = r
	}
	sleep(ctx, rnd, 2*time.Millisecond)
	for {
		err := g.stream.Add(g.more[m-1])
		if !errors.Is(err, perfbuf.ErrBusy) { // a pass that began before Remove has it still
			g.changes.n.Add(1)
			return err
		}
		time.Sleep(10 * time.Microsecond)
	}
}
