package perfbuf

import (
	"math"
	"os"

	"github.com/ringfold/ringfold/internal/raw"
)

// ringWalk goes over one ring, or over all of a reader's as its plan says, without regard to the order of
// events on different CPUs.
//
// A ring's head is loaded once, when the walk comes to it; its tail is stored when the walk leaves it.
// A walk over one ring comes to it once, and stores the tail before only if it began with the ring nearly
// full (see nearlyFull). A walk over all rings comes to one as often as its Schedule wants.
type ringWalk struct {
	pass   *pass
	reader *Reader
	only   *Ring // to be read; nil: all of the reader's

	ring    *Ring      // being read, nil between rings
	planned bool       // the reader's plan is that of this walk
	flush   *flush     // whose marker is to come at the end
	alone   raw.Single // of an event that does not lie in its ring's view

	off      uint64 // next record, or the batch's first
	from     uint64 // where that lies in its stretch's view
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

func (r *Ring) begin() (*pass, error) {
	if err := r.reader.enter(); err != nil {
		return nil, err
	}
	w := &r.walk
	if err := w.visit(r); err != nil {
		r.reader.leave()
		return nil, err
	}
	w.pass.err, w.upTo = nil, w.head
	return w.pass, nil
}

func (r *Reader) begin() (*pass, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	if r.heldByStream() { // said even if the rings are empty
		r.leave()
		return nil, errOrdering
	}
	if !r.passing.CompareAndSwap(false, true) {
		r.leave()
		return nil, errBusyPass
	}
	w := &r.walk
	w.pass.err, w.planned = nil, false
	w.flush = r.flush.Load() // before the heads
	r.counts.passes.Add(1)
	return w.pass, nil
}

// visit claims a ring and loads its head.
func (w *ringWalk) visit(r *Ring) error {
	if err := r.claim(folding); err != nil {
		return err
	}
	w.ring = r
	w.tail = r.raw.Tail()
	w.off, w.began, w.head = w.tail, w.tail, r.raw.Head()
	used, size := w.head-w.tail, r.raw.Size()
	w.commitAt = math.MaxUint64
	if used >= size/8*nearlyFull {
		w.commitAt = w.tail + size/8
	}
	r.counts.observe(min(used, size))
	return nil
}

// next makes the next batch. It ends the life of the events before.
func (w *ringWalk) next() bool {
	w.settle()
	for {
		if w.reader.closed.Load() {
			w.pass.err = os.ErrClosed
			return false
		}
		if w.ring == nil || int64(w.off-w.upTo) >= 0 {
			if !w.nextRing() {
				return w.marker()
			}
			continue
		}
		if w.off >= w.commitAt {
			w.commit()
			w.commitAt += w.ring.raw.Size() / 8
		}
		r := w.ring
		s := r.raw.Stretch(w.off, w.off+min(w.upTo-w.off, w.commitAt-w.off), w.head)
		if s.Pos < s.Limit {
			if word, next, ok := s.Sample(); ok {
				w.samples(s, word, next)
				return true
			}
		}
		var rec raw.Record
		r.raw.Parse(w.off, w.head, &rec)
		w.off += rec.Size
		if w.deliver(r, &rec) {
			return true
		}
	}
}

// samples makes a batch of a stretch, of which this is the first sample.
func (w *ringWalk) samples(s raw.Stretch, word, next uint64) {
	if !raw.Poison {
		w.from = s.Pos
		w.pass.batch.setStretch(s)
		return
	}
	ev := w.alone.Private(raw.Event{View: s.View, Word: word})
	w.off += next - s.Pos
	w.ring.last = ev.Time()
	w.tally.samples++
	w.pass.one(ev)
}

// settle takes into account what has been taken of a stretch, and gives up the rest of it. It ends the life of
// the events.
func (w *ringWalk) settle() {
	b := &w.pass.batch
	if n := b.settle(); n > 0 && b.list == nil {
		w.off += b.stretch.Pos - w.from
		w.ring.last = raw.Event{View: b.stretch.View, Word: b.last}.Time()
		w.tally.samples += uint64(n)
	}
	w.alone.Expire()
}

// deliver makes a batch of what does not lie in a row with others, and counts it. It reports whether there is
// anything to deliver.
func (w *ringWalk) deliver(r *Ring, rec *raw.Record) bool {
	odd := raw.Odd{Kind: rec.Kind, Time: rec.Time}
	switch rec.Kind {
	case raw.Unknown:
		w.tally.unknown++
		return false
	case raw.Sample: // it goes over the ring's edge, or ends there
		r.last = rec.Time
		w.tally.samples++
		w.pass.one(w.alone.Join(r.raw, rec))
		return true
	case raw.Lost:
		if rec.Time > r.last { // else an interrupt reports what the record before had seen
			r.lossAfter = r.last
		}
		known := min(rec.Lost, r.advance)
		r.advance -= known
		if odd.Lost = rec.Lost - known; odd.Lost == 0 {
			return false // or the kernel found nothing to report after all: an interrupt reported it first
		}
		odd.After = min(r.lossAfter, rec.Time)
	case raw.Corrupt:
		odd.Fault, odd.Off, odd.Size, odd.Time = rec.Fault, rec.Off, rec.Size, r.last
	}
	w.tally.add(&odd)
	w.pass.one(w.alone.Odd(r.cpu, odd))
	return true
}

// nextRing leaves the present ring and goes on to the next that holds something.
func (w *ringWalk) nextRing() bool {
	w.leaveRing()
	if w.only != nil {
		return false
	}
	if !w.planned { // not before end is sure to run: a Schedule may panic
		w.planned = true
		w.reader.planPass()
	}
	r, upTo := w.reader.nextVisit()
	if r == nil {
		return false
	}
	if w.pass.err = w.visit(r); w.pass.err != nil {
		return false
	}
	w.upTo = w.head
	if w.head-upTo < r.raw.Size() { // else the head is not so far
		w.upTo = upTo
	}
	return true
}

// marker makes a batch of the event that answers a Flush, if one is due.
func (w *ringWalk) marker() bool {
	f := w.flush
	w.flush = nil
	return f != nil && w.pass.err == nil && w.pass.answer(w.reader, f, f.time)
}

// commit publishes the tail: everything before off has been consumed.
func (w *ringWalk) commit() {
	r := w.ring
	if w.off != w.tail {
		r.raw.SetTail(w.off)
		r.counts.tailStores.Add(1)
		r.counts.bytes.Add(w.off - w.tail)
		w.tail = w.off
	}
	w.tally.flush(&r.counts)
}

func (w *ringWalk) leaveRing() {
	if w.ring == nil {
		return
	}
	begin := w.began
	if w.off != begin {
		w.reader.entries.Disarm(w.ring.index) // events flow: they need not wake anybody. After the first: that was waited for
	}
	w.commit()
	if w.only == nil {
		w.reader.visited(w.ring, w.off-begin)
		w.ring.disclaim()
	}
	w.ring = nil
}

func (w *ringWalk) end() {
	w.settle()
	w.leaveRing()
	reader, ring := w.reader, w.only
	// From here on the walk and its pass may be somebody else's.
	if ring == nil {
		reader.passing.Store(false)
	} else {
		ring.disclaim()
	}
	reader.leave()
}
