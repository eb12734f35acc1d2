package stream

import (
	"math"
	"os"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// Unordered reads the rings that a stream has claimed, without ordering events across CPUs. It
// reads one ring alone, or all rings of several readers, one reader after the other by their plans.
//
// A visit to a ring loads the head once, at its start, and stores the tail at its end. It stores
// the tail earlier only if the ring was nearly full at the start (see nearlyFull). A walk over one
// ring visits it once; a walk over a reader's rings follows its plan.
//
// The fields stand in the order of their use: a first event after a pause waits for the memory of
// each cache line.
type Unordered struct {
	pass    *Pass
	flushes *Flushes // the stream's own calls
	halt    *atomic.Bool

	sources  []*Rings // of the present pass
	at       int      // index of the source being read
	planned  bool     // the source at has planned this pass
	roused   bool     // the first visit comes before any plan
	counting bool     // losing has not been asked for its losses yet
	losing   int      // index of the source whose counted losses come next
	flush    *Flush   // answered by a marker at the end
	failures []*Flush // per source, or of the only ring: errors to end with after the marker
	only     *Ring    // the only ring to read; nil: all of the sources
	ring     *Ring    // being read, nil between rings

	off      uint64 // offset of the next record, or of the batch's first
	upTo     uint64 // leave the ring when off gets there
	head     uint64 // head of ring, as loaded once
	began    uint64 // offset where the visit began
	tail     uint64 // tail of ring, as published
	latest   uint64 // greatest time of a sample
	commitAt uint64 // publish when off gets here
	list     list   // the batch, if it is of samples in the ring
	tally    tally

	done   func()     // called at the end of a pass
	warmed uint64     // keeps the loads of warm
	alone  raw.Single // memory for an event outside its ring's view
}

// nearlyFull is the fill level, in eighths, from which a long drain stores the tail after each
// eighth of the ring. Otherwise outputs would fail for want of room that has long been read.
const nearlyFull = 6

// Init makes p a pass that calls done at its end. Markers answer flushes; halt ends a pass.
func (w *Unordered) Init(p *Pass, halt *atomic.Bool, flushes *Flushes, done func()) *Unordered {
	w.pass, w.flushes, w.halt, w.done = p, flushes, halt, done
	p.Halt, p.walk = halt, w
	return w
}

// Begin starts a pass over all rings of these readers. The caller has claimed the rings, and keeps
// them mapped. roused says that the first output after a pause has woken it.
func (w *Unordered) Begin(sources []*Rings, roused bool) {
	w.begin()
	w.sources, w.at, w.planned, w.roused, w.losing, w.counting = sources, 0, false, roused, 0, true
	for _, rings := range sources {
		w.failures = append(w.failures, rings.failures.Load()) // loaded before the heads
		rings.Passes.Add(1)
	}
	if roused {
		w.warm()
	}
}

// warm loads memory that the first event takes. After a pause it would wait for each of these cache
// lines in turn; here the processor asks for all of them at once.
func (w *Unordered) warm() {
	w.warmed = w.latest + w.list.next + uint64(w.pass.Batch.Taken)
	if len(w.list.events) > 0 && w.list.events[0].View != nil {
		w.warmed++
	}
	for _, rings := range w.sources {
		for _, r := range rings.all() {
			w.warmed += r.Raw.Head() + uint64(r.Raw.Touch(r.Raw.Tail())) + r.Counts.HighWater.Load()
		}
	}
}

// BeginOne starts a pass over one ring. The caller has claimed it, and keeps it mapped.
func (w *Unordered) BeginOne(r *Ring) {
	w.begin()
	w.only = r
	w.failures = append(w.failures, r.failures.Load()) // loaded before the head
	w.visit(r)
	w.upTo = w.head
}

func (w *Unordered) begin() {
	w.pass.Err = nil
	w.flush, w.failures = w.flushes.Load(), w.failures[:0]
}

// visit loads the head of a claimed ring.
func (w *Unordered) visit(r *Ring) {
	w.ring = r
	w.tail = r.tail()
	w.off, w.began, w.head = w.tail, w.tail, r.Raw.Head()
	used, size := w.head-w.tail, r.Raw.Size()
	w.commitAt = math.MaxUint64
	if used >= size/8*nearlyFull {
		w.commitAt = w.tail + size/8
	}
	r.Counts.observe(min(used, size))
}

// next makes the next batch. The events before become invalid.
func (w *Unordered) next() bool {
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
		if w.listed() {
			return true
		}
		if int64(w.off-w.upTo) >= 0 {
			continue // there were only discarded records
		}
		var rec raw.Record
		r.Raw.Parse(w.off, w.head, &rec)
		if rec.Kind == raw.Busy {
			w.upTo = w.off // stop here: the tail cannot pass a record before it is committed
			continue
		}
		w.off += rec.Size
		if w.deliver(r, &rec) {
			return true
		}
	}
}

// settle accounts for the events taken from the batch, and gives up the rest. The events become
// invalid.
func (w *Unordered) settle() {
	if n := w.pass.Batch.settle(); n > 0 && w.list.n > 0 {
		w.settleList(n)
	}
	w.alone.Expire()
}

// deliver counts a record that is not part of a run, and makes a batch of it. It reports whether
// there is anything to deliver.
func (w *Unordered) deliver(r *Ring, rec *raw.Record) bool {
	odd := raw.Odd{Kind: rec.Kind, CPU: r.Raw.CPU(), Time: rec.Time}
	switch rec.Kind {
	case raw.Unknown:
		w.tally.unknown++
		return false
	case raw.Discarded:
		w.tally.discarded++
		return false
	case raw.Sample: // it wraps around or ends at the edge, or lacks the ring's fields
		ev := w.alone.Join(r.Raw, rec)
		r.last = ev.Time()
		w.tally.samples++
		w.pass.Batch.one(ev)
		return true
	case raw.Lost:
		if r.Raw.Counted(rec, &odd) {
			r.Raw.Losses.Know(&odd)
			break
		}
		odd.Lost, odd.After = r.Raw.Losses.Report(rec.Lost, rec.Time, r.last)
		if odd.Lost == 0 {
			return false // nothing new: an interrupt reported it first
		}
		odd.After = min(odd.After, rec.Time)
	case raw.Corrupt:
		odd.Fault, odd.Off, odd.Size, odd.Time = rec.Fault, rec.Off, rec.Size, r.last
	}
	w.tally.add(&odd)
	w.pass.Batch.one(w.alone.Odd(r.Raw, odd))
	return true
}

// Latest returns the greatest time of a delivered sample, or 0. Call it within a pass.
func (w *Unordered) Latest() uint64 { return w.latest }

// nextRing leaves the present ring and goes on to the next with something to read.
func (w *Unordered) nextRing() bool {
	w.leaveRing()
	if w.roused { // most likely one ring holds anything, and its event need not wait for a plan
		w.roused = false
		for _, rings := range w.sources {
			for _, r := range rings.all() {
				if r.Raw.Head() != r.left {
					w.visit(r)
					w.upTo = w.tail + min(w.head-w.tail, leastVisit)
					return true
				}
			}
		}
	}
	for ; w.at < len(w.sources); w.at, w.planned = w.at+1, false {
		rings := w.sources[w.at]
		if !w.planned { // planned here, once End is sure to run: a Schedule may panic
			w.planned = true
			rings.planPass()
		}
		r, upTo := rings.nextVisit()
		if r == nil {
			continue
		}
		w.visit(r)
		w.upTo = w.head
		if w.head-upTo < r.Raw.Size() { // else the head is before upTo
			w.upTo = upTo
		}
		return true
	}
	return false
}

// counted makes a batch of a loss that programs have counted, if there is one. The next pass
// delivers those that the user does not reach.
func (w *Unordered) counted() bool {
	for ; w.losing < len(w.sources); w.losing, w.counting = w.losing+1, true {
		rings := w.sources[w.losing]
		if w.counting {
			w.counting = false
			rings.lost = rings.takeLosses(rings.lost[:0])
		}
		if len(rings.lost) == 0 {
			continue
		}
		loss := rings.lost[0]
		of := rings.of(&loss)
		rings.lost = append(rings.lost[:0], rings.lost[1:]...)
		of.Raw.Losses.Know(&loss)
		var t tally
		t.add(&loss)
		t.flush(&of.Counts)
		w.pass.Batch.one(w.alone.Odd(of.Raw, loss))
		return true
	}
	return false
}

// marker makes a batch of the marker that answers a Flush, if one is due, or ends the pass with an
// error.
func (w *Unordered) marker() bool {
	if w.counted() || w.answer(w.flushes, &w.flush) {
		return true
	}
	for i := range w.failures {
		if w.answer(w.failuresOf(i), &w.failures[i]); w.pass.Err != nil {
			break // the next pass returns the others
		}
	}
	return false
}

// failuresOf returns the failures of a source, or of the only ring.
func (w *Unordered) failuresOf(source int) *Flushes {
	if w.only != nil {
		return &w.only.failures
	}
	return &w.sources[source].failures
}

func (w *Unordered) answer(flushes *Flushes, to **Flush) bool {
	f := *to
	*to = nil
	return f != nil && flushes.answer(w.pass, f, f.Time)
}

// commit publishes the tail: everything before off has been consumed.
func (w *Unordered) commit() {
	r := w.ring
	if w.off != w.tail {
		if tail := r.tail(); int64(w.off-tail) > 0 { // else another reader is ahead: never go back
			r.Raw.SetTail(w.off)
			r.leave()
		}
		r.Counts.stored(w.off - w.tail)
		w.tail = w.off
	}
	w.tally.flush(&r.Counts)
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
	w.latest = max(w.latest, w.ring.last)
	if w.only == nil {
		w.ring.rings.visited(w.ring, w.off-begin)
	}
	w.ring = nil
}

// end publishes the consumed records. Once it calls done, another user may take the walk and its
// pass.
func (w *Unordered) end() {
	w.settle()
	w.leaveRing()
	w.done()
}
