package walk

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/gate"
	"github.com/ringfold/ringfold/internal/raw"
)

// Rings are those of a reader. A pass over all of them visits them as its plan says.
type Rings struct {
	gate    *gate.Gate
	rings   []*Ring                      // with room for those that come later: see all
	count   atomic.Int32                 // that there are; only grows
	order   func([]*Ring)                // sorts those that a pass is to visit
	flowing func(ring int, bytes uint64) // is told that a ring had events
	holding sync.Mutex                   // held while a stream takes or gives up all rings, or one more comes
	plan    plan                         // of the present pass over all rings

	losses   func(into []raw.Odd) []raw.Odd
	lost     []raw.Odd     // of these, those that no pass has delivered
	Passes   atomic.Uint64 // over all rings
	Failures Flushes       // end them with errors: see Fail
}

// Options are what Rings needs of its user. Functions are called by whoever reads, within passes.
type Options struct {
	Gate *gate.Gate
	Room int // rings at most
	// Order sorts rings, which come by CPU number, into the order in which they are to be read. One that it replaces by nil
	// is left out.
	Order func([]*Ring)
	// Flowing is told how much a pass has read of a ring, if anything. It is called before the tail is stored.
	Flowing func(ring int, bytes uint64)
	// Losses appends what programs have counted since its last call, of outputs that no record reports. nil: nobody counts.
	Losses func(into []raw.Odd) []raw.Odd
}

// Init makes it a set of no rings.
func (r *Rings) Init(o Options) {
	r.gate, r.order, r.flowing, r.losses = o.Gate, o.Order, o.Flowing, o.Losses
	r.rings = make([]*Ring, o.Room)
}

// Add adds a ring, which is then the last of them. If a stream holds the rings, it
// holds this one from the beginning. There must be room. One call at a time.
func (r *Rings) Add(ring *Ring) {
	i := int(r.count.Load())
	ring.rings, ring.index = r, i
	ring.Leave()
	r.holding.Lock()
	defer r.holding.Unlock()
	if i > 0 && r.Held() {
		ring.owner.Store(held)
	}
	r.rings[i] = ring
	// It must be known before the first event can be in it: whoever has waited for a grace period, and
	// looks at all rings, then finds what is older than that.
	r.count.Store(int32(i + 1))
}

// all returns the rings that there are.
func (r *Rings) all() []*Ring { return r.rings[:r.count.Load()] }

// Claim makes a stream the only reader of all rings, and of those to come, until Disclaim. The error wraps ErrBusy.
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

// Disclaim undoes Claim, for rings that have come since too.
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

// Held reports whether a stream holds the rings: all of them, if any.
func (r *Rings) Held() bool { return r.rings[0].owner.Load() == held }

// At is the i-th ring.
func (r *Rings) At(i int) *Ring { return r.rings[i] }

// Flowed tells Options.Flowing, on behalf of a stream.
func (r *Rings) Flowed(ring int, bytes uint64) { r.flowing(ring, bytes) }

// Fail ends passes with an error, once each, when they have delivered what the rings held at that time: one over all
// rings, and one over the ring of each of these CPUs alone.
func (r *Rings) Fail(now uint64, err error, cpus []int) {
	r.Failures.Fail(now, err)
	for _, ring := range r.all() {
		if slices.Contains(cpus, ring.Raw.CPU()) {
			ring.failures.Fail(now, err)
		}
	}
}

// CountsLosses reports whether programs count the losses, and no record reports them.
func (r *Rings) CountsLosses() bool { return r.losses != nil }

// Losses appends what programs have counted since its last call, and what no pass has delivered. It is for the reader
// of all rings.
func (r *Rings) Losses(into []raw.Odd) []raw.Odd {
	into, r.lost = append(into, r.lost...), r.lost[:0]
	if r.losses == nil {
		return into
	}
	return r.losses(into)
}

// Room is how many rings there may be.
func (r *Rings) Room() int { return len(r.rings) }

// Count is how many rings there are. Only Rings stores it.
func (r *Rings) Count() *atomic.Int32 { return &r.count }

// What follows is how package wake sees rings.

// Len is how many rings there are.
func (r *Rings) Len() int { return int(r.count.Load()) }

// Head is how far the kernel has got in a ring.
func (r *Rings) Head(ring int) uint64 { return r.rings[ring].Raw.Head() }

// Unread is how many bytes a ring holds, for whoever waits for some to read: see [Ring.Unread].
func (r *Rings) Unread(ring int) uint64 { return r.rings[ring].Unread() }

// Flushing reports whether a pass over all rings is to end with an error.
func (r *Rings) Flushing() bool { return r.Failures.Load() != nil }

// Asked reports whether a pass over one ring alone is to end with a marker, or with an error.
func (r *Rings) Asked(ring int) bool {
	one := r.rings[ring]
	flushes := one.asked.Load()
	return one.failures.Load() != nil || flushes != nil && flushes.Load() != nil
}

// Closed reports whether the reader is closed.
func (r *Rings) Closed() bool { return r.gate.Closed().Load() }

// Retain is that of the Gate.
func (r *Rings) Retain() { r.gate.Retain() }

// Release is Leave of the Gate.
func (r *Rings) Release() { r.gate.Leave() }
