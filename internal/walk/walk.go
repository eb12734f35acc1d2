package walk

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
	pass  *Pass
	rings *Rings
	only  *Ring // to be read; nil: all

	ring     *Ring      // being read, nil between rings
	planned  bool       // the rings' plan is that of this walk
	flush    *Flush     // whose marker is to come at the end
	failure  *Flush     // whose error comes after that
	lost     []raw.Odd  // that programs have counted, and the user has not been told of
	counting bool       // the present pass has not asked for more of these
	alone    raw.Single // of an event that does not lie in its ring's view
	list     list       // of samples that do, where they are not read in a stretch

	off      uint64 // next record, or the batch's first
	from     uint64 // where that lies in its stretch's view
	upTo     uint64 // leave the ring when off gets there
	head     uint64 // of ring, as loaded once
	began    uint64 // where the visit began
	tail     uint64 // of ring, as published
	commitAt uint64 // publish when off gets here
	tally    Tally
}

// nearlyFull is the share of a ring, in eighths, above which a long drain commits early, an eighth
// of the ring at a time: outputs would fail for want of room that is long read.
const nearlyFull = 6

func (w *ringWalk) init(p *Pass, rings *Rings, only *Ring) {
	w.pass, w.rings, w.only = p, rings, only
	p.Halt, p.Walk = rings.gate.Closed(), w
}

// visit loads the head of a ring that is claimed.
func (w *ringWalk) visit(r *Ring) {
	w.ring = r
	w.tail = r.Tail()
	w.off, w.began, w.head = w.tail, w.tail, r.Raw.Head()
	used, size := w.head-w.tail, r.Raw.Size()
	w.commitAt = math.MaxUint64
	if used >= size/8*nearlyFull {
		w.commitAt = w.tail + size/8
	}
	r.Counts.Observe(min(used, size))
}

// Next makes the next batch. It ends the life of the events before.
func (w *ringWalk) Next() bool {
	w.settle()
	for {
		if w.rings.Closed() {
			w.pass.Err = os.ErrClosed
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
			w.commitAt += w.ring.Raw.Size() / 8
		}
		r := w.ring
		s := r.Raw.Stretch(w.off, w.off+min(w.upTo-w.off, w.commitAt-w.off), w.head)
		if s.Pos < s.Limit {
			if word, next, ok := s.View.Sample(s.Pos, s.End); ok {
				w.samples(s, word, next)
				return true
			}
		}
		if r.Raw.Layout() == raw.LayoutRingBuf && w.listed() {
			return true
		}
		if int64(w.off-w.upTo) >= 0 {
			continue // discarded records were all there was
		}
		var rec raw.Record
		r.Raw.Parse(w.off, w.head, &rec)
		if rec.Kind == raw.Busy {
			w.upTo = w.off // and no further: what is behind it cannot be given back before it is committed
			continue
		}
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
		w.pass.Batch.setStretch(s)
		return
	}
	ev := w.alone.Private(raw.Event{View: s.View, Word: word})
	w.off += next - s.Pos
	w.ring.last = ev.Time()
	w.tally.Samples++
	w.pass.Batch.One(ev)
}

// settle takes into account what has been taken of a stretch, and gives up the rest of it. It ends the life of
// the events.
func (w *ringWalk) settle() {
	b := &w.pass.Batch
	switch n := b.Settle(); {
	case n == 0:
	case b.List == nil:
		w.off += b.Stretch.Pos - w.from
		w.ring.last = raw.Event{View: b.Stretch.View, Word: b.Latest}.Time()
		w.tally.Samples += uint64(n)
	case w.list.n > 0:
		w.settleList(n)
	}
	w.alone.Expire()
}

// deliver makes a batch of what does not lie in a row with others, and counts it. It reports whether there is
// anything to deliver.
func (w *ringWalk) deliver(r *Ring, rec *raw.Record) bool {
	odd := raw.Odd{Kind: rec.Kind, CPU: r.Raw.CPU(), Time: rec.Time}
	switch rec.Kind {
	case raw.Unknown:
		w.tally.Unknown++
		return false
	case raw.Discarded:
		w.tally.Discarded++
		return false
	case raw.Sample: // it goes over the ring's edge, or ends there, or is too short for the ring's fields
		ev := w.alone.Join(r.Raw, rec)
		r.last = ev.Time()
		w.tally.Samples++
		w.pass.Batch.One(ev)
		return true
	case raw.Lost:
		if r.Raw.Counted(rec, &odd) {
			r.Raw.Losses.Known.Add(odd.Lost)
			break
		}
		odd.Lost, odd.After = r.Raw.Losses.Report(rec.Lost, rec.Time, r.last)
		if odd.Lost == 0 {
			return false // or the kernel found nothing to report after all: an interrupt reported it first
		}
		odd.After = min(odd.After, rec.Time)
	case raw.Corrupt:
		odd.Fault, odd.Off, odd.Size, odd.Time = rec.Fault, rec.Off, rec.Size, r.last
	}
	w.tally.Add(&odd)
	w.pass.Batch.One(w.alone.Odd(r.Raw, odd))
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
		w.rings.planPass()
	}
	r, upTo := w.rings.nextVisit()
	if r == nil {
		return false
	}
	if w.pass.Err = r.claim(reading); w.pass.Err != nil {
		return false
	}
	w.visit(r)
	w.upTo = w.head
	if w.head-upTo < r.Raw.Size() { // else the head is not so far
		w.upTo = upTo
	}
	return true
}

// counted makes a batch of a loss that programs have counted, if there is one. Those that the user does not come to are for the next pass.
func (w *ringWalk) counted() bool {
	if w.only != nil || w.pass.Err != nil {
		return false
	}
	if w.counting {
		w.counting = false
		w.lost = w.rings.Losses(w.lost)
	}
	if len(w.lost) == 0 {
		return false
	}
	first := w.rings.rings[0]
	loss := w.lost[0]
	w.lost = append(w.lost[:0], w.lost[1:]...)
	first.Raw.Losses.Known.Add(loss.Lost)
	first.Counts.LostRecords.Add(1)
	w.pass.Batch.One(w.alone.Odd(first.Raw, loss))
	return true
}

// marker makes a batch of the event that answers a Flush, if one is due, or ends the pass with an error.
func (w *ringWalk) marker() bool {
	if w.counted() {
		return true
	}
	failures := &w.rings.Failures
	if w.only != nil {
		failures = &w.only.failures
	}
	return w.answer(&w.rings.Flushes, &w.flush) || w.answer(failures, &w.failure)
}

func (w *ringWalk) answer(flushes *Flushes, to **Flush) bool {
	f := *to
	*to = nil
	return f != nil && w.pass.Err == nil && flushes.Answer(w.pass, f, f.Time)
}

// commit publishes the tail: everything before off has been consumed.
func (w *ringWalk) commit() {
	r := w.ring
	if w.off != w.tail {
		if tail := r.Tail(); int64(w.off-tail) > 0 { // else another reader is further: outputs fail if the tail goes back
			r.Raw.SetTail(w.off)
			r.Leave()
		}
		r.Counts.Stored(w.off - w.tail)
		w.tail = w.off
	}
	w.tally.Flush(&r.Counts)
}

func (w *ringWalk) leaveRing() {
	if w.ring == nil {
		return
	}
	begin := w.began
	if w.off != begin {
		w.rings.flowing(w.ring.index, w.off-begin)
	}
	w.commit()
	if w.only == nil {
		w.rings.visited(w.ring, w.off-begin)
		w.ring.Disclaim()
	}
	w.ring = nil
}

func (w *ringWalk) End() {
	w.settle()
	w.leaveRing()
	rings, ring := w.rings, w.only
	// From here on the walk and its pass may be somebody else's.
	if ring == nil {
		rings.passing.Store(false)
	} else {
		ring.Disclaim()
	}
	rings.gate.Leave()
}
