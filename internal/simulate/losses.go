package simulate

import "fmt"

// losses is the outputs of a CPU that failed for want of room, and what was delivered of them.
type losses struct {
	instants []uint64 // of failures, those of finished groups aside
	gone     uint64   // failures whose instants are dropped
	reported uint64
	asked    bool // the kernel was asked for the count
	crossed  bool // a report came within another output
	group    gap  // the latest reports, as one
}

// gap is a delivered loss: so many in the interval (after, time].
type gap struct{ n, after, time uint64 }

func (l *losses) failed(now uint64) { l.instants = append(l.instants, now) }

// nested says that losses were reported within another output.
func (l *losses) nested() { l.crossed = true }

func (l *losses) total() uint64 { return l.gone + uint64(len(l.instants)) }

// report takes a delivered gap. Gaps are delivered in the order of their failures, except that clocks
// may swap what is no further apart than their error: such gaps are checked together.
func (l *losses) report(g gap, skew uint64) error {
	if l.group.n > 0 && g.time-l.group.time <= skew {
		l.group.n += g.n
		l.group.after = min(l.group.after, g.after)
		l.group.time = g.time
		l.reported += g.n
		return nil
	}
	if err := l.check(skew); err != nil {
		return err
	}
	l.group = g
	l.reported += g.n
	return nil
}

// check holds the group against its failures.
func (l *losses) check(skew uint64) error {
	g := l.group
	if g.n == 0 {
		return nil
	}
	l.group = gap{}
	if uint64(len(l.instants)) < g.n {
		return fmt.Errorf("%w: %d reported, %d failed", ErrLoss, l.reported, l.total())
	}
	first, last := l.instants[0], l.instants[g.n-1]
	l.instants = l.instants[g.n:]
	l.gone += g.n
	// A CPU that reads its clock backwards, as none does, gives intervals that begin too late.
	// Where the kernel was asked between such a report and its publication, a few losses more or
	// fewer are counted to an interval than belong there: their sum is right.
	if l.crossed && l.asked {
		return nil
	}
	early := first < g.after && skew == 0
	if early || last > g.time+skew {
		return fmt.Errorf("%w: %d in (%d, %d], they failed from %d to %d", ErrLoss, g.n, g.after, g.time, first, last)
	}
	return nil
}
