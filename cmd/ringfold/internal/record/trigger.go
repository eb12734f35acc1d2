package record

import (
	"context"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// watch looks for an event that triggers. A perf event array has one reader, and that is the kernel's overwriting: so what the rings hold is
// copied now and then, and what is new in it is looked at.
type watch struct {
	every  time.Duration // between two looks
	looked uint64        // events up to this time have been seen
	quiet  uint64        // events up to this time trigger nothing
	told   bool          // that some were overwritten before
}

// Looks are this far apart: a quarter of what the rings hold, within these bounds.
const (
	leastEvery = 5 * time.Millisecond
	mostEvery  = 100 * time.Millisecond
)

// look reports whether an event that triggers has come since the last look.
func (r *recorder) look(ctx context.Context) (found bool, err error) {
	now := perfbuf.Now() // events up to this time are in it; up to Until, if the map is another reader's by now
	snap, err := r.rec.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	defer snap.Release()
	if r.looked > 0 && snap.CompleteSince() > r.looked+1 && !r.told {
		r.told = true
		r.set.Note("events are overwritten before --trigger sees them: %s", r.larger(snap.Age(), time.Duration(snap.Until()-r.looked)))
	}
	for ev := range snap.Events() {
		if r.counts(ev.Time()) && r.set.Triggers(ev) {
			found = true
			break
		}
	}
	r.looked = now
	r.every = min(max(snap.Age()/4, leastEvery), mostEvery)
	return found, nil
}

// counts reports whether an event of this time may trigger.
func (w *watch) counts(time uint64) bool { return time > max(w.looked, w.quiet) }

// triggered keeps events that matched from triggering again until a whole snapshot later: what they show would be the same.
func (w *watch) triggered(until uint64, age time.Duration) { w.quiet = until + uint64(age) }
