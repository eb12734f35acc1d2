// Package merge orders the records of several rings by time, in place: records stay in the rings
// until they are delivered, and only those few that lie out of order within their ring cost a word
// of memory.
//
// A round is: Scan each ring up to a head loaded after the watermark was chosen, Begin with that
// watermark, Next until it reports false, End. What is later than the watermark is held in its ring
// for another round.
//
// Invariants:
//   - every byte of [freed, scan) of a ring is addressable and has been checked;
//   - the published tail is at or below every undelivered record, and only grows;
//   - the keys of delivered items never decrease, except of those marked late;
//   - a delivered record's bytes stay valid until the next call of Next or End.
package merge

import "github.com/ringfold/ringfold/internal/raw"

// Item is one record in its place in the stream.
type Item struct {
	raw.Record
	Ring  int    // index into the rings given to New
	Key   uint64 // the time it is ordered by: Record.Time, and a place within its ring for what has no time
	After uint64 // of a loss: the greatest time that its ring delivered before, 0 if none
	Late  bool   // a later key has been delivered before
}

// Merger merges rings. It is not safe for concurrent use.
type Merger struct {
	rings []ring
	tree  tree

	watermark uint64
	last      uint64 // the greatest key delivered
	out       int    // ring of the item that is with the caller, -1 if none
	committed func(ring int, bytes uint64)
}

// New merges rings from their published tails on. committed is told of each tail that is published,
// and how many bytes that freed.
func New(rings []*raw.Ring, committed func(ring int, bytes uint64)) *Merger {
	m := &Merger{rings: make([]ring, len(rings)), tree: newTree(len(rings)), out: -1, committed: committed}
	for i, r := range rings {
		t := r.Tail()
		m.rings[i] = ring{raw: r, freed: t, pos: t, scan: t, frontKey: never, items: [2]Item{{Ring: i}, {Ring: i}}}
	}
	return m
}

// Found is what a Scan has counted.
type Found struct {
	Inversions int // samples that lie behind one with a later time
	Unknown    int // records of types that are not delivered
}

// Scan takes the records of ring i up to head into account. No honest record is later than ceiling.
func (m *Merger) Scan(i int, head, ceiling uint64) Found {
	r := &m.rings[i]
	found := r.scanTo(head, ceiling)
	if r.frontKey == never {
		r.advance()
	}
	return found
}

// Scanned returns the head that ring i was last scanned up to.
func (m *Merger) Scanned(i int) uint64 { return m.rings[i].scan }

// Earliest returns the smallest key that is held; ok is false if none is.
func (m *Merger) Earliest() (key uint64, ok bool) {
	key = never
	for i := range m.rings {
		key = min(key, m.rings[i].key())
	}
	return key, key != never
}

// Begin starts a round that delivers everything up to and including watermark.
func (m *Merger) Begin(watermark uint64) {
	m.watermark = watermark
	m.tree.build(m.due)
}

// due is the key of a ring as the tree sees it: what is beyond the watermark does not take part.
func (m *Merger) due(i int) uint64 {
	if i < len(m.rings) {
		if key := m.rings[i].key(); key <= m.watermark {
			return key
		}
	}
	return never
}

// Next returns the next item, or nil if the round is over. It ends the life of the item before.
func (m *Merger) Next() *Item {
	m.release()
	if m.tree.win.key == never {
		return nil
	}
	i := m.tree.win.ring
	it := m.rings[i].take()
	m.tree.replace(m.due(i))
	m.out = i
	if it.Kind == raw.Corrupt {
		it.Key = max(it.Key, m.last) // it has no time of its own, so it cannot be late
	}
	it.Late = it.Key < m.last || it.Kind == raw.Sample && it.Time != it.Key
	m.last = max(m.last, it.Key)
	return it
}

// release frees early what a ring has delivered, so that one long round does not keep a ring full:
// an eighth of the ring at a time.
func (m *Merger) release() {
	if m.out < 0 {
		return
	}
	if r := &m.rings[m.out]; r.pos-r.freed >= r.raw.Size()/8 {
		m.commit(m.out)
	}
	m.out = -1
}

// End publishes the tails of all rings from which something was delivered.
func (m *Merger) End() {
	for i := range m.rings {
		m.commit(i)
	}
	m.out = -1
}

func (m *Merger) commit(i int) {
	r := &m.rings[i]
	done := r.done()
	if done == r.freed {
		return
	}
	r.raw.SetTail(done)
	bytes := done - r.freed
	r.freed = done
	m.committed(i, bytes)
}

// Last returns the greatest key delivered so far.
func (m *Merger) Last() uint64 { return m.last }
