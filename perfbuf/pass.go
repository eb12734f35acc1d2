package perfbuf

import (
	"math"
	"os"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// Source is what a pass reads: one [Ring], a [Reader] (all rings), or an [Ordered] stream (all
// rings, what is due in time order). Only they, and types that embed them, implement it.
type Source interface {
	// begin claims what the source reads and sets p up. If it fails, nothing is claimed.
	begin(p *pass) error
}

// pass walks once over what a source holds at its begin. All ways of reading are made of it: begin,
// more until it returns nil, end.
//
// A ring's head is loaded once, when the pass comes to it; its tail is stored when the pass leaves it.
// A pass over one ring comes to it once, and stores the tail before only if it began with the ring nearly
// full (see nearlyFull). A pass over all rings comes to one as often as its Schedule wants.
type pass struct {
	halt    *atomic.Bool // set when the source or its reader is closed
	reader  *Reader      // which the pass entered
	ring    *Ring        // being walked, nil between rings
	whole   bool         // over all rings, as the reader's plan says: the reader's pass flag is ours
	planned bool         // the reader's plan is that of this pass
	flush   *flush       // whose marker is to come at the end
	ordered *Ordered     // the source, if it is one
	err     error        // why more returned nil, nil if all was read

	batch    *Batch // with the user, if it is samples of ring from off on
	batchEnd uint64 // where it ends

	off      uint64 // next record, or the batch's first
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
	p.reader, p.halt = r.reader, &r.reader.closed
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
	p.reader, p.halt, p.whole = r, &r.closed, true
	p.flush = r.flush.Load() // before the heads
	r.counts.passes.Add(1)
	return nil
}

// visit claims a ring and loads its head.
func (p *pass) visit(r *Ring) error {
	if err := r.claim(folding); err != nil {
		return err
	}
	p.ring = r
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

// more returns the next events, nil at the end of the pass. It ends the life of those before.
//
// Events come in batches so that the loop that hands them out makes one call for each, the user's, or
// one for many.
func (p *pass) more() *Batch {
	if p.ordered != nil {
		return p.ordered.more(p)
	}
	p.settle()
	for {
		if poison && p.ring != nil {
			p.ring.expire()
		}
		if p.reader.closed.Load() {
			p.err = os.ErrClosed
			return nil
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
		n, end := r.raw.Batch(p.off, p.off+min(p.upTo-p.off, p.commitAt-p.off), p.head, r.samples)
		if n > 0 {
			if poison {
				r.divert(&r.samples[0])
			}
			r.batch = Batch{ring: r, recs: r.samples[:n]}
			p.batch, p.batchEnd = &r.batch, end
			return p.batch
		}
		rec := &r.other[0]
		r.raw.Parse(p.off, p.head, rec)
		p.off += rec.Size
		if rec.Kind == raw.Sample { // it wraps
			r.last = rec.Time
			if poison {
				r.divert(rec)
			}
		}
		if p.rare(r, rec) {
			r.batch = Batch{ring: r, recs: r.other[:]}
			return &r.batch
		}
	}
}

// settle takes into account what has been taken of a batch of samples, and gives up the rest of it.
func (p *pass) settle() {
	b := p.batch
	if b == nil {
		return
	}
	p.batch = nil
	switch b.taken {
	case len(b.recs):
		p.off = p.batchEnd
	case 0:
	default: // raw.Ring.Batch keeps no offsets, but none of these wraps
		p.off += uint64(uintptr(b.recs[b.taken].Data) - uintptr(b.recs[0].Data))
	}
	if b.taken > 0 {
		p.ring.last = b.recs[b.taken-1].Time
		p.tally.samples += uint64(b.taken)
	}
}

// rare handles what comes alone, and reports whether to deliver it.
func (p *pass) rare(r *Ring, rec *raw.Record) bool {
	switch rec.Kind {
	case raw.Unknown:
		p.tally.unknown++
		return false
	case raw.Lost:
		if rec.Time > r.last { // else an interrupt reports what the record before had seen
			r.unlost = r.last
		}
		known := min(rec.Lost, r.advance)
		r.advance -= known
		if rec.Lost -= known; rec.Lost == 0 {
			return false // or the kernel found nothing to report after all: an interrupt reported it first
		}
		r.after = min(r.unlost, rec.Time)
	case raw.Corrupt:
		rec.Time = r.last
	}
	p.tally.add(rec)
	return true
}

// nextRing leaves the present ring and goes on to the next that holds something.
func (p *pass) nextRing() bool {
	p.leaveRing()
	if !p.whole {
		return false
	}
	if !p.planned { // not before end is sure to run: a Schedule may panic
		p.planned = true
		p.reader.planPass()
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
func (p *pass) marker() *Batch {
	f := p.flush
	if f == nil || p.err != nil {
		return nil
	}
	p.flush = nil
	return p.flushed(f, f.time)
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
	if p.off != begin {
		p.reader.slots.disarm(p.ring.index) // events flow: they need not wake anybody. After the first: that was waited for
	}
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
	p.settle()
	p.leaveRing()
	if p.whole {
		p.reader.passing.Store(false)
	}
	p.reader.leave()
}
