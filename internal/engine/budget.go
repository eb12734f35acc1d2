package engine

import "time"

// A wakeup costs the program that outputs some 10 us, so one per millisecond costs a CPU's programs
// 1 %. A ring may briefly exceed that, because a process often causes several events in a row.
const (
	bellEvery = time.Millisecond
	burst     = 16
	bellBytes = 128 // per wakeup: outputs before the reader gets up ring the bell too
)

// budget limits the wakeups of a ring. The zero budget is full.
type budget struct {
	whole time.Time // when the budget is full again
}

// spend charges the wakeups that so many bytes have caused. It returns false, and charges nothing,
// if more than most wakeups would then be outstanding.
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
