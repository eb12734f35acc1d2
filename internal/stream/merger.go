package stream

import (
	"github.com/ringfold/ringfold/internal/raw"
)

// item is one event of the merged stream.
type item struct {
	event raw.Event // late: a later key was delivered before, or complete covered its key
	ring  int       // index into the merger's rings
	key   uint64    // the sort key: usually its time

	off, size uint64 // of the record

	lateness uint64 // of a late event: how far its key is below the least key that is not late
}

// merger orders the records of several rings by time. Records stay in the rings until they
// are delivered, unless a ring fills up and spill copies its oldest ones out; in between, a
// record's time and place are kept, 16 bytes each.
//
// A round calls scanTo for each ring, up to a head loaded after choosing the watermark. Then it
// calls begin with that watermark, batch until it returns 0, next for the item that stopped batch,
// and so on until next returns nil, then end. Records later than the watermark stay held. Equal
// keys are ordered by ring, then by offset.
//
// In a BPF ring buffer, a record is busy while its program writes it. Records behind it may be
// committed, and older. A scan goes past a busy record, and each later scan looks at it again.
//
// Invariants:
//   - every byte of [freed, scan) of a ring is addressable and has been checked;
//   - the published tail never passes a busy record, nor an undelivered one that is not copied out,
//     and only grows;
//   - every record below scan has been handled, or is in the list of busy ones, by offset;
//   - the main run of a ring is in order by key and offset; records that were busy join the early
//     ones, of any key;
//   - the keys of delivered items never decrease, except of items marked late; an item is also late
//     if complete covered its key;
//   - bytes copied out are within the budget, and a record is copied whole or not at all;
//   - a delivered record's bytes stay valid until the next call of next or end.
//
// It is not safe for concurrent use.
type merger struct {
	rings []*ring
	arena arena
	round round

	item   item
	alone  raw.Single // of events that do not lie in their ring's view
	attend bool       // release has work to do for the item
	last   uint64     // the greatest key delivered
	floor  uint64     // events with a lesser key are late
	before uint64     // last, before the latest batch
	early  uint64     // bit mask: events of the latest batch that came from early runs

	far     bool // the rings are more than a cache holds
	touched uint32

	committed func(ring int, bytes uint64)
}

// newMerger makes a merger without rings. spill is the budget for bytes copied out, 0 for none. It
// calls committed after publishing a tail, with the number of bytes freed.
func newMerger(spill int, committed func(ring int, bytes uint64)) *merger {
	return &merger{arena: arena{budget: uint64(spill)}, committed: committed, round: newRound(0)}
}

// add merges one more ring, from its published tail on. Do not call it between begin and end.
func (m *merger) add(of *Ring) *ring {
	memory, t := of.Raw, of.Raw.Tail()
	r := &ring{
		Ring: of, memory: memory, view: memory.View(), timeAt: memory.TimeAt(), eighth: memory.Size() / 8,
		freed: t, tryAt: t + memory.Size()/8, scan: t, head: t, before: t,
	}
	m.rings = append(m.rings, r)
	m.resize()
	return r
}

// resize adapts to the number of rings.
func (m *merger) resize() {
	m.round = newRound(len(m.rings))
	bytes := uint64(0)
	for i, r := range m.rings {
		r.at = i
		bytes += r.Raw.Size()
	}
	m.far = len(m.rings) >= ahead && bytes > farBytes
}

// findings counts the findings of a scan.
type findings struct {
	inversions int // samples that lie behind one with a later key
	unknown    int // records of types that are not delivered
	keyless    int // samples without a key in their payload, if there should be one
	bad        int // of these, with a key above the ceiling, or without a kernel time
	discarded  int // records that their programs have given up
}

// earliest returns the smallest key that is held, between rounds; ok is false if none is.
func (m *merger) earliest() (key uint64, ok bool) {
	key = never
	for _, r := range m.rings {
		key = min(key, r.first())
	}
	return key, key != never
}

// lose adds a loss of n that the kernel has counted and no record has reported yet, at a time after
// all failures.
func (m *merger) lose(i int, n, time uint64) {
	r := m.rings[i]
	r.Raw.Losses.Learn(n)
	r.lose(raw.Odd{Kind: raw.Lost, CPU: r.Raw.CPU(), Lost: n, After: r.max, Time: time})
}

// loseCounted adds a loss that programs have counted and no record reports, or what they have shed.
// loss has its CPU, number and time interval.
func (m *merger) loseCounted(i int, loss raw.Odd) {
	m.rings[i].Raw.Losses.Know(&loss)
	m.rings[i].lose(loss)
}

// begin starts a round that delivers everything up to and including watermark.
func (m *merger) begin(watermark uint64) {
	for _, r := range m.rings {
		r.roundEnd, r.roundEarly = r.scan, len(r.early.all())
	}
	m.round.begin(watermark)
	m.round.plan(m.rings)
}

// next returns the next item, or nil if the round is over. It invalidates the items before.
func (m *merger) next() *item {
	m.release()
	d := &m.round
	if d.next >= len(d.order) && !d.plan(m.rings) {
		return nil
	}
	it := &m.item
	it.ring = int(d.order[d.next] & d.mask)
	d.next++
	m.rings[it.ring].take(it, m.last, m.floor, &m.alone)
	it.event = m.alone.Private(it.event)
	m.attend = true
	if it.lateness > 0 {
		it.event = it.event.AsLate()
	}
	m.last = max(m.last, it.key)
	return it
}

// batchSize limits the events of one batch: as many as it touches ahead. The poison build has
// memory for one private event.
var batchSize = func() int {
	if raw.Poison {
		return 1
	}
	return ahead
}()

// batch returns the next events, at most batchSize, until evs is full or an event is not a sample
// in its ring's view. rings gets their ring indices. If it returns 0, call Next. It invalidates the
// items before.
func (m *merger) batch(evs []raw.Event, rings []int) (n int) {
	m.release()
	d := &m.round
	if d.next >= len(d.order) && !d.plan(m.rings) {
		return 0
	}
	m.before, m.early = m.last, 0
	least := max(m.last, m.floor)
	if m.far {
		m.touch()
	}
	evs = evs[:min(len(evs), batchSize)]
	for n < len(evs) && d.next < len(d.order) && !m.attend {
		i := int(d.order[d.next] & d.mask)
		r := m.rings[i]
		if !r.plain {
			break
		}
		from, early := &r.main, false
		if r.dueEarly > 0 && r.earlyIsNext() {
			from, early = &r.early, true
		}
		e := from.buf[from.first]
		ev, size, ok := r.view.Find(r.memory.At(e.Off))
		if !ok || ev.Time() != e.Time || e.Time < least || e.Off&flags != 0 {
			break
		}
		if early {
			r.early.first++
			r.dueEarly--
			r.roundEarly--
			m.early |= 1 << n
		} else {
			r.main.first++
			r.dueMain--
		}
		d.next++
		m.last = e.Time
		if int64(e.Off+size-r.tryAt) >= 0 {
			m.attend = true
			m.item.ring, m.item.off, m.item.size = i, e.Off, size
		}
		evs[n], rings[n] = m.alone.Private(ev), i
		n++
	}
	return n
}

// undo takes back the latest batch's events from these rings, except for the first delivered ones.
func (m *merger) undo(rings []int, delivered int) {
	if delivered == len(rings) {
		return
	}
	m.attend = false // only the last can have set it
	for n, i := range rings[delivered:] {
		m.rings[i].untake(m.early>>(delivered+n)&1 != 0)
		m.round.next--
	}
	m.last = m.before
	if delivered > 0 {
		from := m.rings[rings[delivered-1]].run(m.early>>(delivered-1)&1 != 0)
		m.last = from.buf[from.first-1].Time
	}
}

// ahead is the number of records to touch at once. farBytes is the size of all rings from which
// that pays.
const (
	ahead    = 16
	farBytes = 4 << 20
)

// touch brings the next records into the processor's cache. With many rings, each record is
// probably out of the cache; waiting for all at once takes as long as waiting for one. Measured
// with 128 rings of 64 KiB: a quarter less per event. In the cache it costs a tenth more.
func (m *merger) touch() {
	d := &m.round
	sum := uint32(0)
	for _, key := range d.order[d.next:min(d.next+ahead, len(d.order))] {
		if r := m.rings[key&d.mask]; r.plain && r.dueMain > 0 {
			sum += r.memory.Touch(r.main.front().Off)
		}
	}
	m.touched = sum // keeps the compiler from dropping the loads
}

// release invalidates the caller's item. It frees delivered parts of its ring before the round
// ends, an eighth of the ring at a time, so that a long round does not keep the ring full.
func (m *merger) release() {
	m.alone.Expire()
	if !m.attend {
		return
	}
	m.attend = false
	r := m.rings[m.item.ring]
	if r.from != nil {
		m.arena.leave(r)
	}
	if end := m.item.off + m.item.size; int64(end-r.tryAt) >= 0 {
		m.commit(m.item.ring)
		r.tryAt = end + r.eighth // even if an older record kept commit from freeing any
	}
}

// end publishes the tails of all rings from which something was delivered.
func (m *merger) end() {
	m.release()
	m.round.end()
	for i := range m.rings {
		m.rings[i].endRound()
		m.commit(i)
	}
}

func (m *merger) commit(i int) { m.free(i, m.rings[i].done()) }

// giveBack publishes the tail of ring i behind records that a scan has passed over, such as
// discarded ones, unless a held or busy record lies before them. The caller must hold no item.
func (m *merger) giveBack(i int) {
	m.release()
	m.commit(i)
}

// free publishes a tail.
func (m *merger) free(i int, to uint64) {
	r := m.rings[i]
	if to == r.freed {
		return
	}
	bytes := to - r.freed
	r.freed, r.tryAt = to, to+r.eighth
	// Another reader of the same BPF ring buffer may be further: outputs fail if the tail goes
	// back.
	if int64(to-r.Raw.Tail()) > 0 {
		r.Raw.SetTail(to)
	}
	m.committed(i, bytes)
}

// complete declares that nothing up to a key is missing: any later event with such a key is late.
func (m *merger) complete(upTo uint64) { m.floor = max(m.floor, upTo+1) }

// latest returns an upper bound of all held keys: the greatest key that was ever scanned in order,
// or is held out of order.
func (m *merger) latest() (key uint64) {
	for _, r := range m.rings {
		key = max(key, r.max)
		for _, e := range r.early.all() {
			key = max(key, e.Time)
		}
	}
	return key
}
