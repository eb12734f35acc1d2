package stream

import "github.com/ringfold/ringfold/internal/raw"

// Batch is a run of events: a stretch of adjacent samples, found as they are read, or a list of
// events. Its users write out their own loops where they call the user's function. Such a loop
// notes each event as taken before the call, so that the account is right even if the function
// panics.
type Batch struct {
	Stretch raw.Stretch // begins at the next sample; used if List is nil
	List    []raw.Event

	Taken  int    // events handed to the user
	Latest uint64 // Word of the latest sample taken from Stretch
	Ahead  uint64 // offset up to which Stretch.Prefetch has read
	live   bool   // Taken still has to be accounted for
	single [1]raw.Event
}

// set makes b a batch of known events.
func (b *Batch) set(list []raw.Event) {
	b.List, b.Taken, b.live = list, 0, true
}

// one makes b a batch of one event.
func (b *Batch) one(ev raw.Event) {
	b.single[0] = ev
	b.set(b.single[:])
}

// setStretch makes b a batch of the samples of a stretch, which begins with a sample.
func (b *Batch) setStretch(s raw.Stretch) {
	b.Stretch, b.List, b.Taken, b.live = s, nil, 0, true
}

// Take notes that the user has the sample at the stretch's position, which ends at next.
func (b *Batch) Take(word, next uint64) {
	b.Stretch.Pos, b.Latest = next, word
	b.Taken++
}

// Finish takes all remaining events.
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

// settle returns how many events were taken, at least one: handing out a batch hands out its first
// event. It returns 0 if there is no batch, or Settle has already accounted for it.
func (b *Batch) settle() int {
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
