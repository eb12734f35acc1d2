package walk

import (
	"math"
	"os"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// Unordered reads the rings that a stream has claimed, without regard to the order of events on different CPUs: those
// of several readers, one reader after the other and each as its plan says, or one ring alone.
//
// A ring's head is loaded once, when the walk comes to it; its tail is stored when the walk leaves it.
// A walk over one ring comes to it once, and stores the tail before only if it began with the ring nearly
// full (see nearlyFull). A walk over a reader's rings comes to one as often as its Schedule wants.
type Unordered struct {
	pass    *Pass
	flushes *Flushes // of the stream
	halt    *atomic.Bool
	done    func() // called at the end of a pass

	sources []*Rings // of the present pass
	at      int      // which of them is being read
	planned bool     // its plan is that of this pass
	only    *Ring    // is read instead, alone; nil: all of the sources

	ring     *Ring      // being read, nil between rings
	flush    *Flush     // a marker answers it at the end
	failures []*Flush   // of each source, or of the only ring: errors that come after that
	losing   int        // the source whose counted losses come next
	counting bool       // it has not been asked for them
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

// NewUnordered makes p a pass that calls done at its end. Flushes are those that markers answer; halt ends a pass.
func NewUnordered(p *Pass, halt *atomic.Bool, flushes *Flushes, done func()) *Unordered {
	w := &Unordered{pass: p, flushes: flushes, halt: halt, done: done}
	p.Halt, p.Walk = halt, w
	return w
}

// Begin starts a pass over all rings of these readers. The caller has claimed them, and keeps them mapped.
func (w *Unordered) Begin(sources []*Rings) {
	w.begin()
	w.sources, w.at, w.planned, w.losing, w.counting = sources, 0, false, 0, true
	for _, rings := range sources {
		w.failures = append(w.failures, rings.Failures.Load()) // before the heads
		rings.Passes.Add(1)
	}
}

// BeginOne starts a pass over one ring, which the caller has claimed, and keeps mapped.
func (w *Unordered) BeginOne(r *Ring) {
	w.begin()
	w.only = r
	w.failures = append(w.failures, r.failures.Load()) // before the head
	w.visit(r)
	w.upTo = w.head
}

func (w *Unordered) begin() {
	w.pass.Err = nil
	w.flush, w.failures = w.flushes.Load(), w.failures[:0]
}

// visit loads the head of a ring that is claimed.
func (w *Unordered) visit(r *Ring) {
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
func (w *Unordered) Next() bool {
	w.settle()
	for {
		if w.halt.Load() {
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
func (w *Unordered) samples(s raw.Stretch, word, next uint64) {
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
func (w *Unordered) settle() {
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
func (w *Unordered) deliver(r *Ring, rec *raw.Record) bool {
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
func (w *Unordered) nextRing() bool {
	w.leaveRing()
	for ; w.at < len(w.sources); w.at, w.planned = w.at+1, false {
		rings := w.sources[w.at]
		if !w.planned { // not before end is sure to run: a Schedule may panic
			w.planned = true
			rings.planPass()
		}
		r, upTo := rings.nextVisit()
		if r == nil {
			continue
		}
		w.visit(r)
		w.upTo = w.head
		if w.head-upTo < r.Raw.Size() { // else the head is not so far
			w.upTo = upTo
		}
		return true
	}
	return false
}

// counted makes a batch of a loss that programs have counted, if there is one. Those that the user does not come to
// are for the next pass.
func (w *Unordered) counted() bool {
	for ; w.losing < len(w.sources); w.losing, w.counting = w.losing+1, true {
		rings := w.sources[w.losing]
		if w.counting {
			w.counting = false
			rings.lost = rings.Losses(rings.lost[:0])
		}
		if len(rings.lost) == 0 {
			continue
		}
		first := rings.rings[0]
		loss := rings.lost[0]
		rings.lost = append(rings.lost[:0], rings.lost[1:]...)
		first.Raw.Losses.Known.Add(loss.Lost)
		first.Counts.LostRecords.Add(1)
		w.pass.Batch.One(w.alone.Odd(first.Raw, loss))
		return true
	}
	return false
}

// marker makes a batch of the event that answers a Flush, if one is due, or ends the pass with an error.
func (w *Unordered) marker() bool {
	if w.counted() || w.answer(w.flushes, &w.flush) {
		return true
	}
	for i := range w.failures {
		if w.answer(w.failuresOf(i), &w.failures[i]); w.pass.Err != nil {
			break // others are for the next pass
		}
	}
	return false
}

// failuresOf are those of a source, or of the only ring.
func (w *Unordered) failuresOf(source int) *Flushes {
	if w.only != nil {
		return &w.only.failures
	}
	return &w.sources[source].Failures
}

func (w *Unordered) answer(flushes *Flushes, to **Flush) bool {
	f := *to
	*to = nil
	return f != nil && flushes.Answer(w.pass, f, f.Time)
}

// commit publishes the tail: everything before off has been consumed.
func (w *Unordered) commit() {
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

func (w *Unordered) leaveRing() {
	if w.ring == nil {
		return
	}
	begin := w.began
	if w.off != begin {
		w.ring.rings.flowing(w.ring.index, w.off-begin)
	}
	w.commit()
	if w.only == nil {
		w.ring.rings.visited(w.ring, w.off-begin)
	}
	w.ring = nil
}

// End publishes what was consumed. From the call of done on, the walk and its pass may be somebody else's.
func (w *Unordered) End() {
	w.settle()
	w.leaveRing()
	w.done()
}
