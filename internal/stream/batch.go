package stream

import "github.com/ringfold/ringfold/internal/raw"

// Batch is a run of events. Its users write out their own loops where they call the user's
// function. Such a loop notes each event as taken before the call, so that the account is right
// even if the function panics.
type Batch struct {
	List   []raw.Event
	Taken  int  // events handed to the user
	live   bool // Taken still has to be accounted for
	single [1]raw.Event
}

// set makes b a batch of these events.
func (b *Batch) set(list []raw.Event) {
	b.List, b.Taken, b.live = list, 0, true
}

// one makes b a batch of one event.
func (b *Batch) one(ev raw.Event) {
	b.single[0] = ev
	b.set(b.single[:])
}

// Finish takes all remaining events.
func (b *Batch) Finish() { b.Taken = len(b.List) }

// settle returns how many events were taken, at least one: handing out a batch hands out its first
// event. It returns 0 if there is no batch, or settle has already accounted for it.
func (b *Batch) settle() int {
	if !b.live {
		return 0
	}
	b.live = false
	return max(1, b.Taken)
}
