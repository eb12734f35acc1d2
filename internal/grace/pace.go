package grace

import "time"

const (
	// backoff is the least pause after a failed wait: the next one probably fails too, and fails
	// fast.
	backoff = 10 * time.Millisecond

	// saved bounds how much unused interval an idle barrier accumulates. Rounds worth that much may
	// then begin without any interval.
	saved = 16 * time.Millisecond

	// quickly is how long a caller of Try may be blocked: little more than what passing a request
	// to the goroutine and the result back takes.
	quickly = 500 * time.Microsecond
)

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

// turn returns how long the interval forbids a round. 0 means that the caller is to make one.
func (b *Barrier) turn() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if wait := b.next.Sub(now); wait > 0 {
		return wait
	}
	// Rare events come in bursts. So unused time counts, within bounds.
	if least := now.Add(-max(saved-b.interval, 0)); b.next.Before(least) {
		b.next = least
	}
	b.next = b.next.Add(b.interval)
	return 0
}

// paced is Round for the caller whose turn it is.
func (b *Barrier) paced() {
	if b.Round() == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := time.Now().Add(backoff); t.After(b.next) {
		b.next = t
	}
}
