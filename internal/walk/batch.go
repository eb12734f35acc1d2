package walk

import "github.com/ringfold/ringfold/internal/raw"

// Batch is a run of events: samples that lie in a row, which are found as they are read, or a list of events. Loops over
// events are its user's, as they are written out where the user's function is called: such a loop notes what it has
// taken before it calls the function, so that all is accounted for should that panic.
type Batch struct {
	Stretch raw.Stretch // from the next sample on, if List is nil
	List    []raw.Event

	Taken  int    // events that the user has, or has had
	Latest uint64 // Word of the latest, of a stretch
	Ahead  uint64 // what Stretch.Prefetch has read
	live   bool   // Taken is not yet accounted for
	single [1]raw.Event
}

// Set makes it a batch of known events.
func (b *Batch) Set(list []raw.Event) {
	b.List, b.Taken, b.live = list, 0, true
}

// One makes it a batch of one event.
func (b *Batch) One(ev raw.Event) {
	b.single[0] = ev
	b.Set(b.single[:])
}

// setStretch makes it a batch of the samples of a stretch, which begins with one.
func (b *Batch) setStretch(s raw.Stretch) {
	b.Stretch, b.List, b.Taken, b.live = s, nil, 0, true
}

// Take notes that the user has the sample at the stretch's position, up to next.
func (b *Batch) Take(word, next uint64) {
	b.Stretch.Pos, b.Latest = next, word
	b.Taken++
}

// Finish takes all that is left.
func (b *Batch) Finish() {
	if b.List != nil {
		b.Taken = len(b.List)
		return
	}
	for b.Stretch.Pos < b.Stretch.Limit {
		word, next, ok := b.Stretch.View.Sample(b.Stretch.Pos, b.Stretch.End)
		if !ok {
			return
		}
		b.Take(word, next)
	}
}

// Settle returns how many events have been taken, one at least: whoever gets a batch has its first
// event. It returns 0 if there is no batch, or it has been settled.
func (b *Batch) Settle() int {
	if !b.live {
		return 0
	}
	b.live = false
	if b.Taken == 0 && b.List != nil {
		b.Taken = 1
	} else if b.Taken == 0 {
		if word, next, ok := b.Stretch.View.Sample(b.Stretch.Pos, b.Stretch.End); ok {
			b.Take(word, next)
		}
	}
	return b.Taken
}
