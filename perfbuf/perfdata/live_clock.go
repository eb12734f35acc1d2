package perfdata

import (
	"math"
	"slices"
	"sort"
	"time"
)

// since is by how much wall-clock times from one on may be wrong, in ns.
type since struct{ at, wrong uint64 }

// Round says what is known of records that a [Live] is fed. Times are in ns.
type Round struct {
	Through uint64 // CLOCK_MONOTONIC: no event that comes later is from before this
	Offset  int64  // CLOCK_REALTIME - CLOCK_MONOTONIC
	Error   uint64 // by how much Offset may be wrong
	// Latest is a CLOCK_REALTIME that no event is placed after, whatever its host's clock says. 0
	// is no limit.
	Latest uint64
	// Received is when the records came, by any clock: see [Live.Backlog].
	Received time.Time
}

// mostErrors bounds the errors that are kept, by whose times nobody may ask any more.
const mostErrors = 1024

// wall is a time by the wall's clock.
func (r Round) wall(t uint64) uint64 {
	switch {
	case r.Offset >= 0:
		return t + uint64(r.Offset) // both are below mostTime, or Latest cuts it
	case t < uint64(-r.Offset):
		return 0
	}
	return t - uint64(-r.Offset)
}

func (r Round) latest() uint64 {
	if r.Latest == 0 {
		return mostTime
	}
	return r.Latest
}

// place gives an event its wall-clock time. A loss on a ring is known to be between two events of
// its CPU. All CPUs share a ring here, so it becomes one that says itself after which time it was.
func (l *Live) place(k *replay, e *entry, r Round) {
	says := r.wall(e.time)
	at := min(says, r.latest())
	if e.time >= l.through { // else it is late by its own host's clock
		at = max(at, l.floor)
	}
	wrong := r.Error + max(at, says) - min(at, says)
	if wrong < r.Error {
		wrong = math.MaxUint64
	}
	l.erred(at, wrong)
	e.time = at
	switch {
	case e.kind == sample:
		if _, ok := k.latest[e.cpu]; ok || len(k.latest) < mostCPUs {
			k.latest[e.cpu] = at
		}
		return
	case e.kind == corrupt:
		why := "ring memory could not be read"
		if len(e.payload) > 16 {
			why += ": " + string(e.payload[16:])
		}
		e.kind, e.lost, e.payload = lost, 0, []byte(why)
		fallthrough
	case !e.counted:
		e.counted, e.after = true, k.latest[e.cpu]
	case e.after != 0:
		e.after = r.wall(e.after)
	}
	e.after = min(e.after, at)
}

// erred notes how wrong the time of an event may be. It holds up to the time of the next one that
// is noted. One that is not later than others takes part in theirs, as they have the same place.
func (l *Live) erred(at, wrong uint64) {
	n := len(l.errors)
	switch i := sort.Search(n, func(i int) bool { return l.errors[i].at > at }); {
	case i == 0 && n > 0:
		l.errors = slices.Insert(l.errors, 0, since{at, wrong})
	case i > 0 && (i < n || l.errors[i-1].at == at):
		l.errors[i-1].wrong = max(l.errors[i-1].wrong, wrong)
	case n == 0 || l.errors[n-1].wrong != wrong:
		l.errors = append(l.errors, since{at, wrong})
	}
	l.errors = l.errors[max(0, len(l.errors)-mostErrors):]
}

// Error returns by how much the wall-clock time of an event may be wrong, in ns, as its host has
// said: [math.MaxUint64] if that is not known.
func (l *Live) Error(at uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := sort.Search(len(l.errors), func(i int) bool { return l.errors[i].at > at })
	if i == 0 {
		return math.MaxUint64
	}
	return l.errors[i-1].wrong
}
