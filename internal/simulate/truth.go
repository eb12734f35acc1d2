package simulate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ringfold/ringfold/perfbuf"
)

// What a stream is held to.
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

// record is a sample on its way: from its output to its delivery.
type record struct {
	id      uint64
	cpu     int
	own     uint64 // the program's time, in the payload
	key     uint64 // what it is ordered by
	off     uint64 // where its reservation begins, counted from the ring's first byte
	payload []byte
}

// truth is what the kernel knows that it did, and checks what is delivered against it.
type truth struct {
	setup Setup
	clock *kernel

	pending map[uint64]*record // written and not delivered, by id
	spare   []*record
	losses  []losses // by CPU

	last      place // of what was delivered, the greatest
	hash      hash  // over all deliveries
	delivered uint64
	late      uint64
	lost      uint64
	gaps      uint64
	markers   uint64
	watermark uint64 // as last claimed
}

// place is where in the order an event belongs.
type place struct {
	key uint64
	cpu int
	off uint64
}

func newTruth(s Setup, k *kernel) *truth {
	return &truth{setup: s, clock: k, pending: map[uint64]*record{}, losses: make([]losses, s.CPUs), hash: newHash()}
}

// record is an unused one.
func (t *truth) record() *record {
	if n := len(t.spare); n > 0 {
		r := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return r
	}
	return &record{}
}

func (t *truth) reuse(r *record) { t.spare = append(t.spare, r) }

// written says that a record is in its ring, if not yet published, with the time that the kernel took.
func (t *truth) written(r *record, time uint64) {
	r.key = time
	if t.setup.Payload {
		r.key = r.own
	}
	t.pending[r.id] = r
}

// failed says that an output has failed for want of room, now.
func (t *truth) failed(cpu int) { t.losses[cpu].failed(t.clock.clock) }

// deliver checks an event when it is delivered.
func (t *truth) deliver(ev perfbuf.Event) error {
	if late := ev.Time() < t.last.key; late != ev.Late() {
		return fmt.Errorf("%w: %s, after one of %d", ErrOrder, describe(ev), t.last.key)
	}
	if ev.Late() {
		t.late++
		if t.setup.exact() {
			return fmt.Errorf("%w: %s, after one of %d", ErrLate, describe(ev), t.last.key)
		}
	}
	t.hash.add(uint64(ev.Kind()), uint64(ev.CPU()), ev.Time(), ev.Lost(), ev.After())
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

func (t *truth) sample(ev perfbuf.Event) error {
	b := ev.Bytes()
	if len(b) < payloadHead {
		return fmt.Errorf("%w: %s: %d bytes", ErrSample, describe(ev), len(b))
	}
	id := binary.NativeEndian.Uint64(b)
	r := t.pending[id]
	if r == nil {
		return fmt.Errorf("%w: %s: id %#x", ErrSample, describe(ev), id)
	}
	if n := len(r.payload); len(b)-n > 7 || !bytes.HasPrefix(b, r.payload) {
		return fmt.Errorf("%w: %s: %x, was written as %x", ErrSample, describe(ev), b, r.payload)
	}
	if ev.CPU() != r.cpu || ev.Time() != r.key {
		return fmt.Errorf("%w: %s: was written on CPU %d at %d", ErrSample, describe(ev), r.cpu, r.key)
	}
	t.hash.add(id)
	t.delivered++
	at := place{key: r.key, cpu: r.cpu, off: r.off}
	// A slack's round may find what has the very time of the last round's end.
	if !ev.Late() && t.setup.exact() && !t.last.before(at) {
		return fmt.Errorf("%w: %+v after %+v", ErrOrder, at, t.last)
	}
	if !ev.Late() {
		t.last = at
	}
	delete(t.pending, id)
	t.reuse(r)
	return nil
}

func (p place) before(q place) bool {
	switch {
	case p.key != q.key:
		return p.key < q.key
	case p.cpu != q.cpu:
		return p.cpu < q.cpu
	}
	return p.off < q.off
}

func (t *truth) loss(ev perfbuf.Event) error {
	t.gaps++
	t.lost += ev.Lost()
	if !ev.Late() && ev.Time() > t.last.key {
		t.last = place{key: ev.Time()}
	}
	if ev.Lost() == 0 || ev.After() > ev.Time() {
		return fmt.Errorf("%w: %s: %d lost in (%d, %d]", ErrLoss, describe(ev), ev.Lost(), ev.After(), ev.Time())
	}
	l := &t.losses[ev.CPU()]
	if !t.setup.intervals() {
		l.reported += ev.Lost()
		return nil
	}
	return l.report(gap{ev.Lost(), ev.After(), ev.Time()}, t.setup.Skew)
}

// handed is how many events of all kinds have been delivered.
func (t *truth) handed() uint64 { return t.delivered + t.gaps + t.markers }

// complete checks a claim that nothing up to a time is missing. Nothing may come behind it later, either.
func (t *truth) complete(watermark uint64) error {
	if watermark < t.watermark || watermark > t.clock.clock {
		return fmt.Errorf("%w: %d after %d, at %d", ErrWatermark, watermark, t.watermark, t.clock.clock)
	}
	t.watermark = watermark
	if !t.setup.exact() {
		return nil // it is a guess
	}
	if err := t.due(watermark); err != nil {
		return fmt.Errorf("%w: it is %d: %w", ErrWatermark, watermark, err)
	}
	return nil
}

// due checks that nothing is left undelivered up to a time.
func (t *truth) due(time uint64) error {
	for _, r := range t.pending {
		if r.key <= time {
			return fmt.Errorf("%w: of CPU %d, time %d, which is %d before what was due", ErrDelayed, r.cpu, r.key, time-r.key)
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
