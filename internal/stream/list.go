package stream

import "github.com/ringfold/ringfold/internal/raw"

// list is a batch of samples in a ring.
type list struct {
	events    []raw.Event
	n         int    // events in the present batch, 0 if that is another event
	next      uint64 // offset after the last of them
	discarded uint64 // discarded records between the first of them and next
}

// listSize is the capacity of a list: small enough that its events and their samples stay in the L1
// cache. It is one in the poison build, which has memory for one private event.
var listSize = func() int {
	if raw.Poison {
		return 1
	}
	return 64
}()

// listed makes a batch of the next adjacent samples, and skips discarded records. It reports
// whether there are any samples.
func (w *Unordered) listed() bool {
	l := &w.list
	if l.events == nil {
		l.events = make([]raw.Event, listSize)
	}
	stop := w.off + min(w.upTo-w.off, w.commitAt-w.off)
	n, discarded, next := w.ring.Raw.Events(w.off, stop, w.head, l.events)
	if n == 0 {
		w.off = next
		w.tally.discarded += uint64(discarded)
		return false
	}
	l.n, l.next, l.discarded = n, next, uint64(discarded)
	if raw.Poison {
		l.events[0] = w.alone.Private(l.events[0])
	}
	w.pass.Batch.set(l.events[:n])
	return true
}

// settleList accounts for the first n events of the list, which were taken, and gives up the rest.
func (w *Unordered) settleList(n int) {
	l := &w.list
	w.ring.last = l.events[n-1].Time()
	w.tally.samples += uint64(n)
	if n < l.n {
		l.next = w.ring.Raw.Offset(l.events[n], w.off)
		l.discarded = w.ring.discarded(w.off, l.next)
	}
	w.off = l.next
	w.tally.discarded += l.discarded
	l.n = 0
}

// discarded counts the discarded records between two offsets. It never goes past the second, even
// if programs have since overwritten the records.
func (r *Ring) discarded(from, to uint64) (n uint64) {
	var rec raw.Record
	for ; from != to; from += rec.Size {
		if r.Raw.Parse(from, to, &rec); rec.Kind == raw.Discarded {
			n++
		}
	}
	return n
}
