package wake

import "time"

// A wakeup takes the program that outputs some 10 us, so that one per millisecond costs a CPU's programs 1 %. A ring
// may go beyond that for a moment: what happens to a process comes as some events in a row.
const (
	bellEvery = time.Millisecond
	burst     = 16
	bellBytes = 128 // a wakeup each: what came before the reader has got up has rung the bell too
)

// budget is what the wakeups of a ring may cost. The zero budget is whole.
type budget struct {
	whole time.Time // when all of it is there again
}

// spend takes the wakeups that so many bytes have caused from the budget, if there is enough of it for as many in a row as most.
func (b *budget) spend(bytes uint64, most int) bool {
	now := time.Now()
	if b.whole.Before(now) {
		b.whole = now
	}
	whole := b.whole.Add(time.Duration(1+min(bytes, 1<<30)/bellBytes) * bellEvery)
	if whole.Sub(now) > time.Duration(most)*bellEvery {
		return false
	}
	b.whole = whole
	return true
}
