package simulate

import "fmt"

// losses holds the outputs of a CPU that failed for want of room, and the reports about them.
type losses struct {
	instants []uint64 // of failures, except those of finished groups
	gone     uint64   // failures whose instants are dropped
	reported uint64
	asked    bool // the reader read the kernel's counter
	crossed  bool // a report came within another output
	group    gap  // the latest reports, as one
}

// gap is a delivered loss: n outputs in the interval (after, time].
type gap struct{ n, after, time uint64 }

func (l *losses) failed(now uint64) { l.instants = append(l.instants, now) }

// nested notes that an output within another one reported losses.
func (l *losses) nested() { l.crossed = true }

func (l *losses) total() uint64 { return l.gone + uint64(len(l.instants)) }

// report accounts for a delivered gap. Gaps arrive in the order of their failures, except that
// clocks may swap gaps no further apart than their error. Those are checked together.
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

// check compares the group with its failures.
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
	// With skew a CPU's clock can run backwards, as no real one does: intervals then begin too
	// late. If the reader reads the counter between a nested report and its publication, an
	// interval may claim a few losses too many or too few. Their sum is right.
	if l.crossed && l.asked {
		return nil
	}
	early := first < g.after && skew == 0
	if early || last > g.time+skew {
		return fmt.Errorf("%w: %d in (%d, %d], they failed from %d to %d", ErrLoss, g.n, g.after, g.time, first, last)
	}
	return nil
}
