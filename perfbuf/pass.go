package perfbuf

import (
	"math"
	"os"

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
// A ring's head is loaded once, when the pass comes to it; its tail is stored when the pass leaves it.
// A pass over one ring comes to it once, and stores the tail before only if it began with the ring nearly
// full (see nearlyFull). A pass over all rings comes to one as often as its Schedule wants.
type pass struct {
	reader  *Reader  // which the pass entered
	ring    *Ring    // being walked, nil between rings
	whole   bool     // over all rings, as the reader's plan says: the reader's pass flag is ours
	flush   *flush   // whose marker is to come at the end
	ordered *Ordered // the source, if it is one
	err     error    // why next reported false, nil if all was read

	off      uint64 // next record
	upTo     uint64 // leave the ring when off gets there
	head     uint64 // of ring, as loaded once
	began    uint64 // where the visit began
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
	p.upTo = p.head
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
	p.flush = r.flush.Load() // before the heads
	r.planPass()
	r.counts.passes.Add(1)
	return nil
}

// visit claims a ring and loads its head.
func (p *pass) visit(r *Ring) error {
	if err := r.claim(folding); err != nil {
		return err
	}
	p.ring = r
	r.reader.slots.disarm(r.index) // there are events: they need not wake anybody
	p.tail = r.raw.Tail()
	p.off, p.began, p.head = p.tail, p.tail, r.raw.Head()
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
		if p.ring == nil || int64(p.off-p.upTo) >= 0 {
			if !p.nextRing() {
				return p.marker()
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
	if !p.whole {
		return false
	}
	r, upTo := p.reader.nextVisit()
	if r == nil {
		return false
	}
	if p.err = p.visit(r); p.err != nil {
		return false
	}
	p.upTo = p.head
	if p.head-upTo < r.raw.Size() { // else the head is not so far
		p.upTo = upTo
	}
	return true
}

// marker returns the event that answers a Flush, if one is due.
func (p *pass) marker() (Event, bool) {
	f := p.flush
	if f == nil || p.err != nil {
		return Event{}, false
	}
	p.flush = nil
	return p.reader.flushed(f, f.time)
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
	begin := p.began
	p.commit()
	if p.whole {
		p.reader.visited(p.ring, p.off-begin)
	}
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
