package stream

import "time"

// mostPace bounds the time between rounds in slack mode.
const mostPace = 5 * time.Millisecond

// pacing decides when the next round starts. It belongs to one wait.
type pacing struct {
	exact bool
	slack uint64 // ns
	guard uint64 // ns, of the barrier
	polls bool   // rings wake the reader only at a threshold or a poll interval
	least uint64 // ns from one round to the next while rings fill up
	pace  uint64 // the same otherwise
}

func (s *Ordered) newPacing() pacing {
	o := &s.opts
	p := pacing{slack: uint64(o.Slack), least: uint64(min(o.Slack/2, mostPace))}
	if o.barrier != nil {
		p.exact, p.guard = true, o.barrier.Guard()
		if o.barrier.Past() { // the clock may not go on before a late event is delivered
			p.least = 0
		}
	}
	p.pace = p.least
	for _, src := range s.sources {
		if w := &src.Wakeup; w.Armed == nil { // with a doorbell, held events alone set the pace
			p.polls, p.pace = p.polls || w.Poll > 0, max(p.pace, uint64(w.Poll))
		}
	}
	return p
}

// view is the result of a scan.
type view struct {
	now       uint64 // when the scan began
	watermark uint64 // chosen before it
	earliest  uint64 // of held events and requested flushes; never: none
	flushing  bool
	filling   bool   // a ring holds enough to wake the reader
	lastRound uint64 // when the latest round began
}

type verdict uint8

const (
	idle     verdict = iota // nothing is held
	due                     // a round has something to deliver
	outdated                // an event has become due since the choice of the watermark
	unproven                // only a barrier is missing
	early                   // it is too early
	filled                  // it is too early, unless a ring fills up
)

// judge decides whether to start a round and, if it is too early, when to go on.
func (p *pacing) judge(v view) (verdict, uint64) {
	if v.earliest == never {
		return idle, 0
	}
	if v.filling {
		p.pace = min(p.pace, p.least)
	}
	next, wait := v.lastRound+p.pace, early
	switch {
	case v.flushing: // a poll would return at once until the marker is delivered
		next = 0
	case p.polls:
		wait = filled
	}
	if v.earliest <= v.watermark && next <= v.now {
		return due, 0
	}
	until := p.turn(v, next)
	switch {
	case until > v.now:
		return wait, until
	case p.exact:
		return unproven, 0
	default:
		return outdated, 0
	}
}

// turn returns when to go on, not before next.
func (p *pacing) turn(v view, next uint64) uint64 {
	if p.exact && v.earliest <= v.watermark {
		return next
	}
	return max(v.earliest+p.delay(), next) // a barrier that begins sooner would not cover it
}

// delay returns how long after a time a watermark, or a barrier that begins then, covers it.
func (p *pacing) delay() uint64 {
	if p.exact {
		return p.guard + 2
	}
	return p.slack
}
