package grace

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultGuard is a barrier's guard, in ns, unless BarrierOptions sets another. It is far more than
// the clocks of two CPUs differ, even while adjtimex changes their rate: see docs/ordering.md.
const DefaultGuard = 10_000

// BarrierOptions tune a barrier.
type BarrierOptions struct {
	// ns by which the clocks of two CPUs may differ; 0 means DefaultGuard. A provider may need
	// more.
	Guard uint64
	// The average time between the starts of two rounds, see saved; 0 means none.
	Interval time.Duration
}

// Barrier turns grace periods into a watermark: a time up to which every event is published. A
// round reads the clock and then waits for a grace period. A program that was running when the wait
// began has finished when it ends. A later program read its CPU's clock after the round did, so its
// events are later than that time, less the guard. A reader that loads the watermark and then the
// heads of the rings finds every event up to the watermark below those heads.
//
// A barrier makes rounds on request only, so without requests it costs nothing. All methods are
// safe for concurrent use.
type Barrier struct {
	provider Provider
	clock    func() uint64
	guard    uint64
	interval time.Duration
	past     bool

	watermark atomic.Uint64
	pending   atomic.Bool   // a round is requested and has not begun
	wake      chan struct{} // wakes the goroutine for a request
	done      chan struct{} // receives when a round ends
	quit      chan struct{} // closed by Close
	started   atomic.Bool   // a goroutine serves requests

	round sync.Mutex // held for a round: one at a time
	mu    sync.Mutex // of the following
	inUse bool       // a round may use the provider
	ended bool       // Close was called
	next  time.Time  // the earliest start of the next round

	forgotten runtime.Cleanup // see CloseAfter

	durations
}

// New makes a barrier, which then owns the provider. clock returns CLOCK_MONOTONIC in ns, the clock
// that stamps events.
func New(p Provider, clock func() uint64, o BarrierOptions) *Barrier {
	if o.Guard == 0 {
		o.Guard = DefaultGuard
	}
	if more, ok := p.(interface{ Guard() uint64 }); ok { // nestLevels
		o.Guard = max(o.Guard, more.Guard())
	}
	_, past := p.(interface{ Past() })
	b := &Barrier{
		provider: p, clock: clock, guard: o.Guard, interval: o.Interval, past: past,
		wake: make(chan struct{}, 1), done: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	b.base = time.Now()
	return b
}

// Past reports whether programs ran long ago, and the clock is a recording's. It may stand still
// while the reader waits for it.
func (b *Barrier) Past() bool { return b.past }

// Start starts the goroutine that serves requests. A wait blocks the goroutine's OS thread, but the
// goroutine has no dedicated one. Passing a request and its end between threads took half of a rare
// event's latency. Later calls do nothing.
func (b *Barrier) Start() {
	if b.started.CompareAndSwap(false, true) {
		go b.run()
	}
}

// Request asks for a round that begins after this call. It never blocks. Requests before a round
// begins share it; a request during a round leads to another one. After Close it does nothing.
func (b *Barrier) Request() {
	// Round clears pending before it reads the clock. So even a request that finds pending set gets
	// a round that reads the clock later.
	if b.closed() || b.pending.Swap(true) {
		return
	}
	signal(b.wake)
}

// Requested reports whether a requested round has not begun yet.
func (b *Barrier) Requested() bool { return b.pending.Load() }

// Watermark returns the time up to which, inclusive, every event is published. Load the rings'
// heads after this call. It never goes back, and is 0 before the first round.
//
// The load is an acquire and pairs with Round's store, and so with everything before that store.
func (b *Barrier) Watermark() uint64 { return b.watermark.Load() }

// Done returns a channel that receives when a round ends, even a failed one. It holds one signal,
// which stands for all rounds since the last receive. Nobody closes it.
func (b *Barrier) Done() <-chan struct{} { return b.done }

// Round makes one round in the caller's goroutine, which also serves the pending request. It blocks
// for earlier rounds and for the provider's Wait, and returns that Wait's error. After an error the
// watermark stays. After Close it returns os.ErrClosed.
func (b *Barrier) Round() error {
	b.round.Lock()
	defer b.round.Unlock()
	if !b.enter() {
		return os.ErrClosed
	}
	defer b.leave()

	b.pending.Store(false)
	began := b.begin()
	t0 := b.clock() // before the wait, which does not cover programs that begin during it
	err := b.provider.Wait()
	b.end(began, err)
	if err == nil && t0 > b.guard {
		// The watermark is inclusive, hence one less. If clocks differ by the whole guard, an event
		// at t0-guard may still come.
		//
		// The store is a release. A program stores a record's bytes and then data_head, in
		// perf_output_put_handle. The end of its RCU section orders both before the end of the
		// grace period, and so before this store. A reader that sees the store therefore sees those
		// heads, or later ones.
		b.watermark.Store(max(b.watermark.Load(), t0-b.guard-1))
	}
	signal(b.done)
	return err
}

// CloseAfter closes b, whose goroutine would not end by itself, once owner is garbage. Close
// revokes that: until then, whatever b reaches stays in memory.
func CloseAfter[T any](owner *T, b *Barrier) {
	b.forgotten = runtime.AddCleanup(owner, (*Barrier).Close, b)
}

// Close ends the goroutine and closes the provider once no round uses it. It never blocks, and
// repeated calls do nothing.
func (b *Barrier) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended = true
	b.forgotten.Stop()
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

func (b *Barrier) run() {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for !b.closed() {
		select {
		case <-b.quit:
			return
		case <-b.wake:
		}
		for b.Requested() { // else another goroutine's Round has served it
			wait := b.turn()
			if wait == 0 {
				b.paced()
				break
			}
			timer.Reset(wait)
			select {
			case <-b.quit:
				timer.Stop()
				return
			case <-timer.C:
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
