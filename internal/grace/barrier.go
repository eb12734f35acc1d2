package grace

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultGuard is the guard, in ns, of a barrier that is not told another one: far more than the
// clocks of different CPUs are apart, also while adjtimex changes their rate. docs/ordering.md says what was measured.
const DefaultGuard = 10_000

// backoff is how long a barrier at least does nothing after a wait that failed: what failed once
// probably fails again, and fails fast.
const backoff = 10 * time.Millisecond

// saved is for how long the intervals of a barrier that is not asked for add up: that many rounds may then begin
// without any interval.
const saved = 16 * time.Millisecond

// BarrierOptions tune a barrier.
type BarrierOptions struct {
	Guard    uint64        // ns by which the clocks of two CPUs may differ; 0 means DefaultGuard. A provider may need more
	Interval time.Duration // from the start of one round to that of the next, on average: see saved; 0 means none
}

// Barrier turns grace periods into a watermark: a time up to which every event is published. A round
// of it reads the clock and then waits for a grace period. A program that was running when the wait
// began has finished when it ends. One that began later read its CPU's clock after ours was read, so
// its events are later than that time, less the guard. A reader that loads the watermark first, and then
// the heads of the rings, finds every event up to the watermark below those heads.
//
// Rounds are made on request only: without requests a barrier costs nothing. All methods are safe for
// concurrent use.
type Barrier struct {
	provider Provider
	clock    func() uint64
	guard    uint64
	interval time.Duration

	watermark atomic.Uint64
	pending   atomic.Bool   // a round is requested and has not begun
	wake      chan struct{} // wakes the goroutine for a request
	done      chan struct{} // receives when a round ends
	quit      chan struct{} // closed by Close
	start     sync.Once

	round sync.Mutex // held for a round: one at a time
	mu    sync.Mutex
	inUse bool // a round may use the provider; under mu
	ended bool // Close was called; under mu

	durations
}

// New makes a barrier, which the provider then belongs to. clock returns CLOCK_MONOTONIC in ns, as
// the kernel stamps events.
func New(p Provider, clock func() uint64, o BarrierOptions) *Barrier {
	if o.Guard == 0 {
		o.Guard = DefaultGuard
	}
	if more, ok := p.(interface{ Guard() uint64 }); ok { // nestLevels
		o.Guard = max(o.Guard, more.Guard())
	}
	b := &Barrier{
		provider: p, clock: clock, guard: o.Guard, interval: o.Interval,
		wake: make(chan struct{}, 1), done: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	b.base = time.Now()
	return b
}

// Start starts the goroutine that serves requests. Waiting blocks its OS thread, but it has none of its own: handing a request to another
// thread, and its end back, took half of the time until a rare event was delivered. Calls after the first do nothing.
func (b *Barrier) Start() { b.start.Do(func() { go b.run() }) }

// Request asks for one more round that begins after this call. It never blocks. A request while
// another one waits for its round is the same request; one during a round leads to another round
// after it. After Close it does nothing.
func (b *Barrier) Request() {
	// The swap comes before the clock of the round that clears pending is read: even a request that
	// finds another one is served by a round that begins later.
	if b.closed() || b.pending.Swap(true) {
		return
	}
	signal(b.wake)
}

// Requested reports whether a requested round has not begun yet.
func (b *Barrier) Requested() bool { return b.pending.Load() }

// Watermark returns the time up to which, and including which, every event is published: its heads
// are to be loaded after this call. It never goes back, and is 0 before the first round.
//
// The load is an acquire and pairs with Round's store, and so with all that happened before it.
func (b *Barrier) Watermark() uint64 { return b.watermark.Load() }

// Done returns the channel that receives when a round has ended, a failed one too. It holds one
// signal, which stands for all the rounds since the last receive. It is never closed.
func (b *Barrier) Done() <-chan struct{} { return b.done }

// Round makes one round, in the caller's goroutine, and serves the pending request with it. It blocks
// for as long as the provider's Wait, and the rounds before it, take. It returns the Wait's error,
// and then leaves the watermark as it is; after Close, os.ErrClosed.
func (b *Barrier) Round() error {
	b.round.Lock()
	defer b.round.Unlock()
	if !b.enter() {
		return os.ErrClosed
	}
	defer b.leave()

	b.pending.Store(false)
	began := b.begin()
	t0 := b.clock() // before the wait: a program that begins during the wait is not waited for
	err := b.provider.Wait()
	b.end(began, err)
	if err == nil && t0 > b.guard {
		// Inclusive, hence one less: with clocks apart by all of the guard, an event of the time t0-guard
		// may be yet to come.
		//
		// The store is a release. A program stores a record's bytes and then data_head, in
		// perf_output_put_handle; the end of its RCU section orders both before the end of the grace
		// period, and so before this store. A reader that sees it therefore sees those heads, or later ones.
		b.watermark.Store(max(b.watermark.Load(), t0-b.guard-1))
	}
	signal(b.done)
	return err
}

// Close ends the goroutine and lets go of the provider, once no round uses it. It does not
// wait for that, and never blocks. It may be called more than once.
func (b *Barrier) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended = true
	b.pending.Store(false)
	close(b.quit)
	if !b.inUse {
		b.provider.Close()
	}
}

// enter claims the provider for a round, unless the barrier is closed.
func (b *Barrier) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inUse = !b.ended
	return b.inUse
}

func (b *Barrier) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inUse = false
	if b.ended {
		b.provider.Close()
	}
}

// run is the goroutine.
func (b *Barrier) run() {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	var next time.Time // the earliest start of the next round
	for !b.closed() {
		select {
		case <-b.quit:
			return
		case <-b.wake:
		}
		if d := time.Until(next); d > 0 {
			timer.Reset(d)
			select {
			case <-b.quit:
				timer.Stop()
				return
			case <-timer.C:
			}
		}
		if !b.Requested() {
			continue // somebody else's Round has served it
		}
		// What was not used of late may be used now, within bounds: events that are rare come as some in a row.
		now := time.Now()
		if least := now.Add(-max(saved-b.interval, 0)); next.Before(least) {
			next = least
		}
		next = next.Add(b.interval)
		if b.Round() != nil {
			if t := time.Now().Add(backoff); t.After(next) {
				next = t
			}
		}
	}
}

func (b *Barrier) closed() bool {
	select {
	case <-b.quit:
		return true
	default:
		return false
	}
}

// signal sends without blocking: one signal that has not been received stands for all.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
