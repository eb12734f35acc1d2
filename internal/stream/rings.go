package stream

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// Rings are the rings of a reader. A pass over all of them visits them as its plan says.
type Rings struct {
	rings    []*Ring       // with room for later ones: see all
	count    atomic.Int32  // rings in use; only grows
	Passes   atomic.Uint64 // number of passes over all rings
	failures Flushes       // errors that end such passes: see Fail

	order   func([]*Ring)                // sorts the rings that a pass will visit
	flowing func(ring int, bytes uint64) // called when a pass has read bytes of a ring
	holding sync.Mutex                   // held to claim or disclaim all rings, and to add one
	plan    plan                         // of the present pass over all rings

	losses func(into []raw.Odd) []raw.Odd
	lost   []raw.Odd // counted losses that no pass has delivered
}

// RingsOptions configure Rings. The reading goroutine calls the functions, within passes.
type RingsOptions struct {
	Room int // most rings
	// Order receives the rings by CPU number and sorts them into reading order. To leave a ring
	// out, it replaces it with nil.
	Order func([]*Ring)
	// Flowing receives the number of bytes that a pass has read of a ring, if any, before the tail
	// is stored.
	Flowing func(ring int, bytes uint64)
	// Losses appends the losses that programs have counted since its last call, and that no record
	// reports, and what they have shed. nil: programs count none.
	Losses func(into []raw.Odd) []raw.Odd
}

// Init makes r an empty set of rings.
func (r *Rings) Init(o RingsOptions) {
	r.order, r.flowing, r.losses = o.Order, o.Flowing, o.Losses
	r.rings = make([]*Ring, o.Room)
}

// Add appends a ring. If a stream holds the rings, it holds the new one from the beginning. There
// must be room. Calls must not be concurrent.
func (r *Rings) Add(ring *Ring) {
	i := int(r.count.Load())
	ring.rings, ring.index = r, i
	ring.leave()
	r.holding.Lock()
	defer r.holding.Unlock()
	if i > 0 && r.Held() {
		ring.owner.Store(held)
	}
	r.rings[i] = ring
	// Publish the ring before its first event. A reader that waits for a grace period and then
	// looks at all rings will find every event older than that period.
	r.count.Store(int32(i + 1))
}

// all returns the rings in use.
func (r *Rings) all() []*Ring { return r.rings[:r.count.Load()] }

// Claim makes a stream the only reader of all rings, including later ones, until Disclaim. The
// error wraps ErrBusy.
func (r *Rings) Claim() error {
	r.holding.Lock()
	defer r.holding.Unlock()
	rings := r.all()
	for i, ring := range rings {
		if err := ring.claim(held); err != nil {
			disclaim(rings[:i])
			return err
		}
	}
	return nil
}

// Disclaim undoes Claim, also for rings added since.
func (r *Rings) Disclaim() {
	r.holding.Lock()
	defer r.holding.Unlock()
	disclaim(r.all())
}

func disclaim(rings []*Ring) {
	for _, ring := range rings {
		ring.Disclaim()
	}
}

// Held reports whether a stream holds all rings.
func (r *Rings) Held() bool { return r.rings[0].owner.Load() == held }

// At returns the i-th ring.
func (r *Rings) At(i int) *Ring { return r.rings[i] }

// flowed calls Options.Flowing on behalf of a stream.
func (r *Rings) flowed(ring int, bytes uint64) { r.flowing(ring, bytes) }

// Fail ends passes with an error, once each, after they have delivered the present contents of the
// rings. These are one pass over all rings, and one over the ring of each of these CPUs alone.
func (r *Rings) Fail(now uint64, err error, cpus []int) {
	r.failures.fail(now, err)
	for _, ring := range r.all() {
		if slices.Contains(cpus, ring.Raw.CPU()) {
			ring.failures.fail(now, err)
		}
	}
}

// CountsLosses reports whether programs alone count the losses, which no record then reports.
func (r *Rings) CountsLosses() bool {
	return r.losses != nil && r.rings[0].Raw.Layout() == raw.LayoutRingBuf
}

// takeLosses appends the losses that programs have counted since its last call, and earlier ones
// that no pass has delivered. Only the reader of all rings may call it.
func (r *Rings) takeLosses(into []raw.Odd) []raw.Odd {
	into, r.lost = append(into, r.lost...), r.lost[:0]
	if r.losses == nil {
		return into
	}
	return r.losses(into)
}

// of returns the ring that a counted event is told with: the first for losses, as programs on all
// CPUs share a ring buffer, and the CPU's for what was shed, if it has one.
func (r *Rings) of(o *raw.Odd) *Ring {
	for _, ring := range r.all() {
		if o.Kind == raw.Shed && ring.Raw.CPU() == o.CPU {
			return ring
		}
	}
	return r.rings[0]
}

// Room returns the most rings there may be.
func (r *Rings) Room() int { return len(r.rings) }

// The methods below are what package engine waits for in the rings.

// Len returns the number of rings.
func (r *Rings) Len() int { return int(r.count.Load()) }

// Head returns the kernel's position in a ring.
func (r *Rings) Head(ring int) uint64 { return r.rings[ring].Raw.Head() }

// Unread returns how many readable bytes a ring holds: see [Ring.Unread].
func (r *Rings) Unread(ring int) uint64 { return r.rings[ring].unread() }

// Flushing reports whether a pass over all rings must end with an error.
func (r *Rings) Flushing() bool { return r.failures.Load() != nil }

// Asked reports whether a pass over one ring alone must end with a marker or an error.
func (r *Rings) Asked(ring int) bool {
	one := r.rings[ring]
	flushes := one.asked.Load()
	return one.failures.Load() != nil || flushes != nil && flushes.Load() != nil
}
