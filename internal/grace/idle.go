package grace

import "time"

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
