package walk

import "github.com/ringfold/ringfold/internal/raw"

// list is a batch of samples that are found before they are handed out: those of BPF ring buffers, from where a discarded record is on, as one
// may lie between any two. Otherwise samples are read in a stretch.
type list struct {
	events    []raw.Event
	n         int    // in the present batch, 0 if that is another one
	next      uint64 // offset behind the last of them
	discarded uint64 // records from the first of them to there
}

// listSize is how many events a list has: few enough to stay in the processor's nearest cache with what they point to. In the poison
// build it is one, as there is memory for one that is private.
var listSize = func() int {
	if raw.Poison {
		return 1
	}
	return 64
}()

// listed makes a batch of the next samples, as far as they lie in a row, and passes over discarded records. It reports whether
// there are any samples.
func (w *Unordered) listed() bool {
	l := &w.list
	if l.events == nil {
		l.events = make([]raw.Event, listSize)
	}
	stop := w.off + min(w.upTo-w.off, w.commitAt-w.off)
	n, discarded, next := w.ring.Raw.Events(w.off, stop, w.head, l.events)
	if n == 0 {
		w.off = next
		w.tally.Discarded += uint64(discarded)
		return false
	}
	l.n, l.next, l.discarded = n, next, uint64(discarded)
	if raw.Poison {
		l.events[0] = w.alone.Private(l.events[0])
	}
	w.pass.Batch.Set(l.events[:n])
	return true
}

// settleList takes into account that the first n of the list have been taken, and gives up the rest.
func (w *Unordered) settleList(n int) {
	l := &w.list
	w.ring.last = l.events[n-1].Time()
	w.tally.Samples += uint64(n)
	if n < l.n {
		l.next = w.ring.Raw.Offset(l.events[n], w.off)
		l.discarded = w.ring.discarded(w.off, l.next)
	}
	w.off = l.next
	w.tally.Discarded += l.discarded
	l.n = 0
}

// discarded counts such records from one offset to another. Neither is passed over, whatever has been written over the records since.
func (r *Ring) discarded(from, to uint64) (n uint64) {
	var rec raw.Record
	for ; from != to; from += rec.Size {
		if r.Raw.Parse(from, to, &rec); rec.Kind == raw.Discarded {
			n++
		}
	}
	return n
}
