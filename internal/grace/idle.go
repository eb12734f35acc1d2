package grace

import "time"

// quickly is how long a caller of Try may be blocked: little more than what passing a request to
// the goroutine and the result back takes.
const quickly = 500 * time.Microsecond

// Quick reports whether Try would now make rounds itself: the last one was quick, and none is
// requested or under way.
func (b *Barrier) Quick() bool {
	last := b.last.Load()
	return last > 0 && last < int64(quickly) && b.started.Load() && b.failing.Load() == 0 && b.Idle()
}

// Try makes a round in the caller's goroutine, if that is Quick: to have another goroutine make it
// took four times the CPU time, most of it for threads that fall asleep and wake up. If a positive
// time is returned, the interval forbids the round for so long. If ok is false, call Request.
func (b *Barrier) Try() (wait time.Duration, ok bool) {
	if !b.Quick() {
		return 0, false
	}
	if wait = b.turn(); wait == 0 {
		b.paced()
	}
	return wait, true
}

// Forbidden returns how long the interval still forbids a round.
func (b *Barrier) Forbidden() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, time.Until(b.next))
}

// Idle reports whether no round is requested or under way. After a request it stays false until the
// requested round has ended.
func (b *Barrier) Idle() bool {
	// In this order, because a round claims the provider before it takes the request.
	if b.pending.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.inUse
}

// Failing returns how long all waits have failed, and the last error, or 0 and nil if the last
// succeeded.
func (b *Barrier) Failing() (time.Duration, error) {
	since, err := b.failing.Load(), b.err.Load()
	if since == 0 || err == nil {
		return 0, nil
	}
	return time.Since(b.base) - time.Duration(since-1), *err
}

// WaitsForPrograms reports whether a round waits for whole programs, not only for their outputs.
func (b *Barrier) WaitsForPrograms() bool {
	c, ok := b.provider.(*choice)
	return !ok || c.ways[0].is != NestLevels
}

// Guard returns the effective guard, in ns.
func (b *Barrier) Guard() uint64 { return b.guard }
