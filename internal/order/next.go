package order

import "time"

// Step is what to do next in a wait.
type Step struct {
	Do  Action
	For time.Duration // at most; 0: without limit
}

// Action is what a [Step] does.
type Action uint8

const (
	// Deliver is to start a round: it has something to deliver, or a marker.
	Deliver Action = iota
	// Await is to wait for events by the reader's wakeup policy.
	Await
	// Sleep is to call [Stream.Sleep], whatever the rings do meanwhile.
	Sleep
)

// StartWait begins a wait, of which Step gives the steps.
func (s *Stream) StartWait() { s.pacing, s.began = s.newPacing(), 0 }

// Step looks at the rings, relieves those that fill up, and returns what to do before the next call, if
// that is not a round. The error says why all barriers have failed for more than a second.
func (s *Stream) Step() (Step, error) {
	for {
		watermark := s.watermark()
		s.scan()
		if s.began == 0 {
			s.began = s.scanned
		}
		marker := s.marker()
		first := min(s.Earliest(), marker)
		free := watermark
		if watermark = s.bound(free); watermark < first && first <= free {
			return Step{Do: Await, For: s.untilRelief()}, nil // a record that is busy may be older
		}
		verdict, until := s.pacing.judge(view{
			now: s.scanned, watermark: watermark, earliest: first,
			flushing: marker != Never, filling: s.filling(), lastRound: s.lastRound,
		})
		switch verdict {
		case due:
			return Step{Do: Deliver}, nil
		case idle:
			return Step{Do: Await, For: s.untilMarker(s.nextLook())}, nil
		case outdated:
			continue
		case unproven:
			if err := s.failing(); err != nil {
				return Step{}, err
			}
			s.request(first)
			return Step{Do: Sleep, For: s.untilFull()}, nil
		case filled:
			return Step{Do: Await, For: s.atMost(until)}, nil
		default:
			return Step{Do: Sleep, For: s.atMost(until)}, nil
		}
	}
}

// atMost is the time until then, or until rings are to be scanned.
func (s *Stream) atMost(until uint64) time.Duration {
	return time.Duration(min(until-s.scanned, uint64(s.untilFull())))
}

// filling reports whether a ring held, when it was scanned, as much as wakes the reader. The wakeup
// itself may have come during the last round, and is gone then.
func (s *Stream) filling() bool {
	for i := range s.rings {
		if s.used(i) >= s.rings[i].source.Wakeup.Enough {
			return true
		}
	}
	return false
}

// untilRelief is after what time to look at rings while a busy record holds events up; 0: not before they wake the reader.
func (s *Stream) untilRelief() time.Duration {
	look := s.nextLook()
	for _, r := range s.rings {
		if r.head != r.before {
			return sooner(look, s.untilFull()) // it may have to be relieved
		}
	}
	return look
}

// Bounds of the time between looks at rings that wake nobody.
const (
	leastPoll = time.Millisecond
	mostPoll  = 100 * time.Millisecond
)

// nextLook is after what time to look at rings of which nothing is due; 0: not before they wake the reader.
func (s *Stream) nextLook() (after time.Duration) {
	for _, r := range s.rings {
		after = sooner(after, s.nextLookAtBusy(r))
	}
	for _, src := range s.sources {
		after = sooner(after, s.nextLookAt(&src.Wakeup))
	}
	return after
}

// nextLookAtBusy is nextLook of a ring in which a record may be busy. What is committed behind one wakes nobody, nor does that one while
// the tail is before it. In a stamped ring, nothing behind it can be due: it is looked at less and less often.
func (s *Stream) nextLookAtBusy(r *ring) time.Duration {
	switch {
	case s.merger.Busy(r.at) == 0, r.source.Stamped && s.merger.CaughtUp(r.at):
		return 0
	case r.source.Stamped:
		return max(leastScan, min(time.Duration(s.scanned-s.merger.BusySince(r.at))/8, mostPoll))
	}
	return leastPoll
}

// sooner is the shorter of two times, of which 0 is without limit.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (s *Stream) nextLookAt(w *Wakeup) time.Duration {
	if w.Armed != nil && !w.Armed() {
		delay := s.opts.Slack
		if s.opts.Barrier != nil {
			delay = s.opts.Interval
		}
		return min(w.Poll, max(delay, leastPoll)) // more often is not worth it, as events are delayed so long
	}
	if !s.quiet {
		return 0
	}
	if w.Armed == nil && w.Poll > 0 {
		return min(w.Poll, AskAfter)
	}
	return AskAfter
}
