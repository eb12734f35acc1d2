package stream

import (
	"time"

	"github.com/ringfold/ringfold/internal/raw"
)

// A ring that was rather full may have lost events. The CPU's next output carries the record that
// reports them, which stands where they are missing. If the CPU goes quiet, that record never
// comes. The stream then asks the kernel, which interrupts that CPU.
const (
	suspectPercent = 50 // records may be large

	// AskAfter is how long a ring must be quiet before the stream asks the kernel about it.
	AskAfter = 50 * time.Millisecond
)

// lossWatch decides when to ask the kernel about a ring.
type lossWatch struct {
	account *raw.Losses
	head    uint64 // when the ring was last seen to grow while suspect
	since   uint64 // time of that
}

// filled notes how full a ring was.
func (w *lossWatch) filled(used, size uint64) {
	if percent(used, size) >= suspectPercent {
		w.account.Suspect = true
	}
}

// look returns whether to ask the kernel now, or to look again later.
func (w *lossWatch) look(head, now uint64) (ask, again bool) {
	switch {
	case !w.account.Suspect:
		return false, false
	case head != w.head:
		w.head, w.since = head, now
		return false, true
	case now-w.since < uint64(AskAfter):
		return false, true
	default: // if it is still full, ask again after the same time
		w.account.Suspect, w.since = false, now
		return true, false
	}
}

// checkLosses asks the kernel for losses that no record has reported, and perhaps none ever will.
func (s *Ordered) checkLosses() {
	s.quiet = false
	for _, r := range s.merger.rings {
		ask, again := r.losses.look(r.head, s.scanned)
		if ask {
			s.askLosses(r)
		}
		s.quiet = s.quiet || again
	}
}

// countedLosses adds what programs have counted as lost or shed.
func (s *Ordered) countedLosses() {
	for _, src := range s.sources {
		s.lost = src.Rings.takeLosses(s.lost[:0])
		for _, loss := range s.lost {
			at := src.Rings.of(&loss).index
			if at >= len(src.taken) {
				at = 0 // a new ring, which the next round adopts
			}
			s.merger.loseCounted(src.taken[at].at, loss)
		}
	}
}

// askLosses adds the unreported losses of a ring, unless the ring has grown since its head was
// loaded. If it has grown, a record reports them, or the stream asks again. Added now, they would
// stand behind events that came after them.
func (s *Ordered) askLosses(r *ring) {
	if r.source.Rings.CountsLosses() {
		return
	}
	total, ok := r.source.Lost(r.index)
	now := s.opts.Now() // after all failures and before the head: later records are not older
	if news := r.losses.account.Unknown(total); ok && news > 0 && r.Raw.Head() == r.head {
		// A record that is being written may report the same losses. It shrinks by those added now.
		s.merger.lose(r.at, news, now)
	}
}
