package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// Properties of a stream that do not hold.
var (
	ErrOrder     = errors.New("out of order")
	ErrLate      = errors.New("late in exact mode")
	ErrSample    = errors.New("a sample is damaged, delivered twice, or never was written")
	ErrMissing   = errors.New("a sample is missing")
	ErrLoss      = errors.New("a loss is wrong")
	ErrDelayed   = errors.New("an event is delayed that is due")
	ErrRest      = errors.New("something is left at the end")
	ErrArena     = errors.New("spilled more than the budget")
	ErrCounts    = errors.New("counts are wrong")
	ErrPanicked  = errors.New("panicked")
	ErrWatermark = errors.New("the watermark is wrong")
)

// record is a sample on its way from its output to its delivery.
type record struct {
	workload.Payload // its number is unique, its time the program's
	bytes            []byte
	to               *source
	ring             int    // its index in the source
	sleepy           bool   // its program may sleep
	key              uint64 // the time that orders it
	off              uint64 // where its reservation begins, counted from the ring's first byte
	step             int    // of the kernel, when it was written
}

// truth knows every output of the kernel, and checks deliveries against them.
type truth struct {
	setup Setup
	clock *kernel

	pending map[uint64]*record // written and not delivered, by number
	spare   []*record

	last      place // the greatest that was delivered
	hash      hash  // over all deliveries
	delivered uint64
	late      uint64
	lost      uint64
	gaps      uint64
	markers   uint64
	watermark uint64 // as last claimed
}

// of finds the source of an event.
func (t *truth) of(ev perfbuf.Event) *source {
	all := t.clock.to
	return all[slices.IndexFunc(all, func(src *source) bool { return src.name() == ev.Source() })]
}

// mayExcuse reports whether a sample may arrive after the watermark has passed its time.
func (t *truth) mayExcuse(ev perfbuf.Event) bool {
	p, err := workload.Check(ev.Bytes())
	r := t.pending[p.Seq]
	return err != nil || r == nil || r.excused() // known reports samples that are not ours
}

// place is an event's place in the order.
type place struct {
	key  uint64
	ring int
	off  uint64
}

func newTruth(s Setup, k *kernel) *truth {
	return &truth{setup: s, clock: k, pending: map[uint64]*record{}, hash: newHash()}
}

// record returns an unused record.
func (t *truth) record() *record {
	if n := len(t.spare); n > 0 {
		r := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return r
	}
	return &record{}
}

func (t *truth) reuse(r *record) { t.spare = append(t.spare, r) }

// written notes that a record is in its ring, maybe unpublished, with the kernel's time.
func (t *truth) written(r *record, time uint64) {
	r.key, r.step = time, t.clock.steps
	if t.setup.Payload || r.to.bufs != nil {
		r.key = r.Time
	}
	r.to.committed[r.ring]++
	t.pending[r.Seq] = r
}

// deliver checks a delivered event against the current watermark. In exact mode an event at or
// below the watermark is late, too.
func (t *truth) deliver(ev perfbuf.Event, watermark uint64) error {
	marked := ev.Late()
	if t.setup.Mutant == Unmarked {
		marked = marked && ev.Time() < t.last.key
	}
	// A corrupt event carries no time.
	if late := ev.Time() < t.last.key || t.setup.exact() && ev.Time() <= watermark && ev.Kind() != perfbuf.KindCorrupt; late != marked {
		return fmt.Errorf("%w: %s, after one of %d and a watermark of %d", ErrOrder, describe(ev), t.last.key, watermark)
	}
	if ev.Late() {
		t.late++
	}
	t.hash.add(uint64(ev.Kind()), uint64(ev.CPU()), ev.Time(), ev.Lost(), ev.LostAfter())
	switch ev.Kind() {
	case perfbuf.KindSample:
		return t.sample(ev)
	case perfbuf.KindLost:
		return t.loss(ev)
	default:
		return fmt.Errorf("%w: %w", ErrSample, ev.Err())
	}
}

func describe(ev perfbuf.Event) string {
	return fmt.Sprintf("%v of CPU %d, time %d, late %v", ev.Kind(), ev.CPU(), ev.Time(), ev.Late())
}

// known finds the record of a sample and compares every byte.
func (t *truth) known(ev perfbuf.Event) (*record, error) {
	p, err := workload.Check(ev.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSample, describe(ev), err)
	}
	r := t.pending[p.Seq]
	if r == nil {
		return nil, fmt.Errorf("%w: %s: %+v", ErrSample, describe(ev), p)
	}
	size := r.Size
	if r.to.perf != nil {
		size = workload.Padded(size)
	}
	if p != r.Payload || len(ev.Bytes()) != size {
		return nil, fmt.Errorf("%w: %s: %d bytes of %+v, was written as %+v", ErrSample, describe(ev), len(ev.Bytes()), p, r.Payload)
	}
	if ev.Source() != r.to.name() {
		return nil, fmt.Errorf("%w: %s: it is of %v", ErrSample, describe(ev), r.to)
	}
	return r, nil
}

// taken notes that a record was delivered.
func (t *truth) taken(r *record) {
	t.delivered++
	delete(t.pending, r.Seq)
	r.to.delivered(t, r)
}

func (t *truth) sample(ev perfbuf.Event) error {
	r, err := t.known(ev)
	if err != nil {
		return err
	}
	src := r.to
	if ev.CPU() != src.cpu(r) || ev.Time() != r.key || src.out {
		return fmt.Errorf("%w: %s: was written on CPU %d at %d, to %v (out: %v)", ErrSample, describe(ev), r.CPU, r.key, src, src.out)
	}
	if ev.Late() && t.setup.exact() && !r.excused() {
		return fmt.Errorf("%w: %s, after one of %d", ErrLate, describe(ev), t.last.key)
	}
	t.hash.add(r.Seq)
	at := place{key: r.key, ring: r.ring, off: r.off}
	// In slack mode a round may find a record with exactly the time at which the last round ended.
	before := t.last
	if len(t.clock.to) > 1 || t.setup.Changes { // equal times: sources in the order of Add
		before = src.last[r.ring]
	}
	if !ev.Late() && t.setup.exact() && !before.before(at) {
		return fmt.Errorf("%w: %+v after %+v", ErrOrder, at, before)
	}
	if !ev.Late() {
		t.last, src.last[r.ring] = at, at
	}
	t.taken(r)
	return nil
}

func (p place) before(q place) bool {
	switch {
	case p.key != q.key:
		return p.key < q.key
	case p.ring != q.ring:
		return p.ring < q.ring
	}
	return p.off < q.off
}

func (t *truth) loss(ev perfbuf.Event) error {
	t.gaps++
	t.lost += ev.Lost()
	if !ev.Late() && ev.Time() > t.last.key {
		t.last = place{key: ev.Time()}
	}
	if ev.Lost() == 0 || ev.LostAfter() > ev.Time() {
		return fmt.Errorf("%w: %s: %d lost in (%d, %d]", ErrLoss, describe(ev), ev.Lost(), ev.LostAfter(), ev.Time())
	}
	src := t.of(ev)
	if ev.Late() && t.setup.exact() && ev.Time() > src.since {
		return fmt.Errorf("%w: %s, after one of %d", ErrLate, describe(ev), t.last.key)
	}
	l := &src.losses[ev.CPU()]
	if !t.setup.intervals() || src.leaves {
		l.reported += ev.Lost()
		return nil
	}
	return l.report(gap{ev.Lost(), ev.LostAfter(), ev.Time()}, t.setup.Skew)
}

// complete checks the claim that nothing is missing up to the watermark, which must not go back.
func (t *truth) complete(watermark uint64) error {
	if watermark < t.watermark || watermark > t.clock.clock {
		return fmt.Errorf("%w: %d after %d, at %d", ErrWatermark, watermark, t.watermark, t.clock.clock)
	}
	t.watermark = watermark
	if !t.setup.exact() {
		return nil // its watermark is a guess
	}
	if err := t.due(watermark); err != nil {
		return fmt.Errorf("%w: it is %d: %w", ErrWatermark, watermark, err)
	}
	return nil
}

// due checks that nothing is left undelivered up to a time.
func (t *truth) due(time uint64) error {
	for _, r := range t.pending {
		if r.key <= time && !r.excused() {
			return fmt.Errorf("%w: %v: of CPU %d, time %d, which is %d before what was due", ErrDelayed, r.to, r.CPU, r.key, time-r.key)
		}
	}
	return nil
}

// hash is FNV-1a over words.
type hash uint64

func newHash() hash { return 0xCBF29CE484222325 }

func (h *hash) add(words ...uint64) {
	for _, w := range words {
		for range 8 {
			*h = (*h ^ hash(w&0xFF)) * 0x100000001B3
			w >>= 8
		}
	}
}
