package stream

import "time"

// Step is the next action in a wait.
type Step struct {
	Do  Action
	For time.Duration // longest duration; 0: no limit
}

// Action is the kind of a [Step].
type Action uint8

const (
	// Deliver means to start a round: it has something to deliver, or a marker.
	Deliver Action = iota
	// Await means to wait for events by the reader's wakeup policy.
	Await
	// Sleep means to call [Ordered.Sleep], which ignores the rings.
	Sleep
	// Pause is Sleep where no barrier is waited for: only the time and WakeUp end it.
	Pause
)

// StartWait begins a wait; Step returns its steps.
func (s *Ordered) StartWait() { s.pacing, s.began, s.waits = s.newPacing(), 0, true }

// Step looks at the rings, relieves those that fill up, and returns the next action. After Deliver,
// a round comes before the next Step. It makes the barrier itself if the last one was quick. The
// error explains why all barriers have failed for more than a second.
func (s *Ordered) Step() (Step, error) {
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
			return Step{Do: Await, For: s.untilRelief()}, nil // a busy record may be older
		}
		verdict, until := s.pacing.judge(view{
			now: s.scanned, watermark: watermark, earliest: first,
			flushing: marker != never, filling: s.filling(), lastRound: s.lastRound,
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
			wait, ok := s.opts.barrier.Try()
			switch {
			case !ok:
				s.request(first)
				return Step{Do: Sleep, For: s.untilFull()}, nil
			case wait > 0:
				return Step{Do: Pause, For: min(wait, s.untilFull())}, nil
			}
		case filled:
			return Step{Do: Await, For: s.atMost(until)}, nil
		default:
			wait := s.atMost(until)
			if b := s.opts.barrier; b != nil && first > watermark {
				wait = max(wait, min(b.Forbidden(), s.untilFull())) // one sleep, not two
			}
			return Step{Do: Pause, For: wait}, nil
		}
	}
}

// atMost returns the time until then, or until the next scan if that is sooner.
func (s *Ordered) atMost(until uint64) time.Duration {
	return time.Duration(min(until-s.scanned, uint64(s.untilFull())))
}

// filling reports whether a ring held enough to wake the reader when it was scanned. The wakeup
// itself may have come, and gone, during the last round.
func (s *Ordered) filling() bool {
	for _, r := range s.merger.rings {
		if r.fill() >= r.source.Wakeup.Enough {
			return true
		}
	}
	return false
}

// untilRelief returns when to look at rings while a busy record holds events up; 0: not before they
// wake the reader.
func (s *Ordered) untilRelief() time.Duration {
	look := s.nextLook()
	for _, r := range s.merger.rings {
		if r.head != r.before {
			return sooner(look, s.untilFull()) // it may need relief
		}
	}
	return look
}

// Bounds of the time between looks at rings that wake nobody.
const (
	leastPoll = time.Millisecond
	mostPoll  = 100 * time.Millisecond
)

// nextLook returns when to look at rings that have nothing due; 0: not before they wake the reader.
func (s *Ordered) nextLook() (after time.Duration) {
	for _, r := range s.merger.rings {
		after = sooner(after, s.nextLookAtBusy(r))
	}
	for _, src := range s.sources {
		after = sooner(after, s.nextLookAt(&src.Wakeup))
	}
	return after
}

// nextLookAtBusy is nextLook for a ring that may have a busy record. Records committed behind it
// wake nobody, nor does its own commit while the tail is before it. In a stamped ring, nothing
// behind it can be due, so looks become rarer.
func (s *Ordered) nextLookAtBusy(r *ring) time.Duration {
	switch {
	case len(r.busy) == 0, r.source.Stamped && r.freed == r.settled():
		return 0
	case r.source.Stamped:
		return max(leastScan, min(time.Duration(s.scanned-r.busy[0].found)/8, mostPoll))
	}
	return leastPoll
}

// sooner returns the shorter of two times, where 0 means no limit.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (s *Ordered) nextLookAt(w *Wakeup) time.Duration {
	if w.Armed != nil && !w.Armed() {
		delay := s.opts.Slack
		if s.opts.barrier != nil {
			delay = s.opts.Interval
		}
		return min(w.Poll, max(delay, leastPoll)) // the delay makes more frequent looks pointless
	}
	if !s.quiet {
		return 0
	}
	if w.Armed == nil && w.Poll > 0 {
		return min(w.Poll, AskAfter)
	}
	return AskAfter
}
