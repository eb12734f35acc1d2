package perfbuf

import (
	"cmp"
	"math"
	"os"
	"slices"

	"github.com/ringfold/ringfold/internal/raw"
)

// Source is what a pass reads: one [Ring], a [Reader] (all rings), or an [Ordered] stream (all
// rings, what is due in time order). Only they, and types that embed them, implement it.
type Source interface {
	// begin claims what the source reads and sets p up. If it fails, nothing is claimed.
	begin(p *pass) error
}

// pass walks once over what a source holds at its begin. All ways of reading are made of it: begin,
// next until it reports false, end.
//
// A ring's head is loaded once, when the pass comes to it; its tail is stored when the pass leaves
// it, and before that only in a drain that began with the ring nearly full (see nearlyFull).
type pass struct {
	reader  *Reader  // which the pass entered
	ring    *Ring    // being walked, nil between rings
	rest    []*Ring  // still to visit
	whole   bool     // over all rings: the reader's pass flag is ours
	ordered *Ordered // the source, if it is one
	err     error    // why next reported false, nil if all was read

	off      uint64 // next record
	head     uint64 // of ring, as loaded once
	tail     uint64 // of ring, as published
	commitAt uint64 // publish when off gets here
	tally    tally
}

// nearlyFull is the share of a ring, in eighths, above which a long drain commits early, an eighth
// of the ring at a time: outputs would fail for want of room that is long read.
const nearlyFull = 6

func (r *Ring) begin(p *pass) error {
	if err := r.reader.enter(); err != nil {
		return err
	}
	p.reader = r.reader
	if err := p.visit(r); err != nil {
		r.reader.leave()
		return err
	}
	return nil
}

func (r *Reader) begin(p *pass) error {
	if err := r.enter(); err != nil {
		return err
	}
	if r.heldByStream() { // said even if the rings are empty
		r.leave()
		return errOrdering
	}
	if !r.passing.CompareAndSwap(false, true) {
		r.leave()
		return errBusyPass
	}
	p.reader, p.whole = r, true
	p.rest = r.fullestFirst()
	r.counts.passes.Add(1)
	return nil
}

// fullestFirst returns the rings that hold something, the fullest share first.
func (r *Reader) fullestFirst() []*Ring {
	r.visits = r.visits[:0]
	for _, ring := range r.rings {
		if used := ring.used(); used > 0 {
			r.visits = append(r.visits, visit{ring: ring, used: used})
		}
	}
	// All rings are of one size.
	slices.SortStableFunc(r.visits, func(a, b visit) int { return cmp.Compare(b.used, a.used) })
	r.order = r.order[:0]
	for _, v := range r.visits {
		r.order = append(r.order, v.ring)
	}
	return r.order
}

// visit is a ring that holds something.
type visit struct {
	index int // among the reader's rings; only ordered streams need it
	ring  *Ring
	used  uint64
}

// visit claims a ring and loads its head.
func (p *pass) visit(r *Ring) error {
	if err := r.claim(folding); err != nil {
		return err
	}
	p.ring = r
	p.tail = r.raw.Tail()
	p.off, p.head = p.tail, r.raw.Head()
	used, size := p.head-p.tail, r.raw.Size()
	p.commitAt = math.MaxUint64
	if used >= size/8*nearlyFull {
		p.commitAt = p.tail + size/8
	}
	r.counts.observe(min(used, size))
	return nil
}

// next returns the next event. It ends the life of the one before.
func (p *pass) next() (Event, bool) {
	if p.ordered != nil {
		return p.ordered.next(p)
	}
	for {
		if poison && p.ring != nil {
			p.ring.expire()
		}
		if p.reader.closed.Load() {
			p.err = os.ErrClosed
			return Event{}, false
		}
		if p.ring == nil || p.off == p.head {
			if !p.nextRing() {
				return Event{}, false
			}
			continue
		}
		if p.off >= p.commitAt {
			p.commit()
			p.commitAt += p.ring.raw.Size() / 8
		}
		r := p.ring
		r.raw.Parse(p.off, p.head, &r.rec)
		p.off += r.rec.Size
		if r.rec.Kind == raw.Sample {
			p.tally.samples++
			r.last = r.rec.Time
			if poison {
				r.divert(&r.rec)
			}
			return Event{r, &r.rec}, true
		}
		if p.rare(r) {
			return Event{r, &r.rec}, true
		}
	}
}

// rare handles what is not a sample, and reports whether to deliver it.
func (p *pass) rare(r *Ring) bool {
	switch {
	case r.rec.Kind == raw.Unknown:
		p.tally.unknown++
		return false
	case r.rec.Kind == raw.Lost:
		if r.rec.Time > r.last { // else an interrupt reports what the record before had seen
			r.unlost = r.last
		}
		known := min(r.rec.Lost, r.advance)
		r.advance -= known
		if r.rec.Lost -= known; r.rec.Lost == 0 {
			return false // or the kernel found nothing to report after all: an interrupt reported it first
		}
		r.after = min(r.unlost, r.rec.Time)
	case r.rec.Kind == raw.Corrupt:
		r.rec.Time = r.last
	}
	p.tally.add(&r.rec)
	return true
}

// nextRing leaves the present ring and goes on to the next that holds something.
func (p *pass) nextRing() bool {
	p.leaveRing()
	if len(p.rest) == 0 {
		return false
	}
	r := p.rest[0]
	p.rest = p.rest[1:]
	if p.err = p.visit(r); p.err != nil {
		return false
	}
	return true
}

// commit publishes the tail: everything before off has been consumed.
func (p *pass) commit() {
	r := p.ring
	if p.off != p.tail {
		r.raw.SetTail(p.off)
		r.counts.commits.Add(1)
		r.counts.bytes.Add(p.off - p.tail)
		p.tail = p.off
	}
	p.tally.flush(&r.counts)
}

func (p *pass) leaveRing() {
	if p.ring == nil {
		return
	}
	if poison {
		p.ring.expire()
	}
	p.commit()
	p.ring.disclaim()
	p.ring = nil
}

// end publishes what was consumed and gives everything back. It runs deferred, so also when the
// user's function panics or exits its goroutine: the event it had then counts as consumed.
func (p *pass) end() {
	if p.ordered != nil {
		p.ordered.end(p)
		return
	}
	p.leaveRing()
	if p.whole {
		p.reader.passing.Store(false)
	}
	p.reader.leave()
}
