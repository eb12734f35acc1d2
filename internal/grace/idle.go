package grace

// Idle tells that no round is requested and none is under way. After a request it becomes true
// again only when the requested round has ended.
func (b *Barrier) Idle() bool {
	// In this order: a round claims the provider before it takes the request.
	if b.pending.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.inUse
}

// Guard is the guard in effect, in ns.
func (b *Barrier) Guard() uint64 { return b.guard }
