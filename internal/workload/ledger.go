package workload

import (
	"errors"
	"fmt"
)

// Account holds a reader's deliveries of one map and CPU, to compare with Counts.
type Account struct {
	Samples, Losses, Lost uint64
	Levels                [Levels]struct {
		Next    uint64 // the least number that may come
		Samples uint64
	}
}

// Take notes a sample. Outputs of one level come one after the other, and so must their numbers. It
// returns how many were passed over, which a loss has to explain, and fails for one that comes
// again.
func (a *Account) Take(p Payload) (missing uint64, err error) {
	a.Samples++
	l := &a.Levels[p.Level]
	if p.Seq < l.Next {
		return 0, fmt.Errorf("CPU %d level %d: number %d comes again, or after %d", p.CPU, p.Level, p.Seq, l.Next-1)
	}
	missing = p.Seq - l.Next
	l.Next = p.Seq + 1
	l.Samples++
	return missing, nil
}

// Lose notes the report of a loss.
func (a *Account) Lose(n uint64) {
	a.Losses++
	a.Lost += n
}

// Outcome is what a reader says became of outputs.
type Outcome struct{ Delivered, Dropped, Lost uint64 }

// Balance holds a reader's counts against the programs': each output was delivered, dropped, lost,
// or refused, as Agree checks. The error says by how much each sum is off. Unless exact, losses
// that no later record has reported may be missing.
func (c *Counts) Balance(o Outcome, exact bool) error {
	var errs []error
	if sum := o.Delivered + o.Dropped; c.Written != sum {
		errs = append(errs, fmt.Errorf("%d outputs succeeded, but %d were delivered + %d dropped: %+d",
			c.Written, o.Delivered, o.Dropped, int64(sum-c.Written)))
	}
	if o.Lost > c.Full || exact && o.Lost != c.Full {
		errs = append(errs, fmt.Errorf("%d outputs found no room, but %d count as lost: %+d", c.Full, o.Lost, int64(o.Lost-c.Full)))
	}
	return errors.Join(errs...)
}
