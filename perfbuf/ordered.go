package perfbuf

import (
	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
)

// Mode is how an ordered stream decides that an event's turn has come. The zero value is
// Slack(time.Millisecond).
type Mode struct {
	set   bool
	slack time.Duration
}

// Slack holds each event back until d after its time, so that older ones on other CPUs can still
// come first. It is a guess, as every fixed wait is: a CPU of a virtual machine may be stopped for
// 100 ms between taking an event's time and publishing it. What comes too late is delivered as soon
// as it is seen and marked [Event.Late], never hidden. Delivery lags by d to 1.5 d, more with a
// linger time ([Wakeup]) or while a pass takes long, and the rings must be large enough for what
// arrives meanwhile.
func Slack(d time.Duration) Mode { return Mode{set: true, slack: d} }

func (m Mode) String() string { return fmt.Sprintf("slack %v", m.effective().slack) }

func (m Mode) effective() Mode {
	if !m.set {
		return Slack(time.Millisecond)
	}
	return m
}

// OrderOptions says how to order. The zero value is good.
type OrderOptions struct {
	Mode Mode
}

// Ordered is one stream of the events of all CPUs, in the order of their times. Events stay in
// their rings until they are delivered; nothing is copied.
//
// What is promised: events come in non-decreasing order of [Event.Time], those marked [Event.Late]
// excepted. Times of different CPUs are comparable within the error of the kernel's clock; order in
// time is not causality. Losses have their place in the stream, before the sample that reported
// them. A record whose time lies more than a second in the future is corrupt: see [KindCorrupt].
//
// While it is open, a stream holds all rings: other reads of them return [ErrBusy]. It is for one
// goroutine at a time, except for Close.
type Ordered struct {
	reader *Reader
	merger *merge.Merger
	mode   Mode
	clock  func() uint64 // ns, the clock of the events

	busy    atomic.Bool // a pass or a wait is running
	closing atomic.Bool
	gone    chan struct{}

	// For whoever is busy.
	heads     []uint64
	tallies   []tally
	with      *Ring // ring of the event that is with the user
	lastRound uint64
	timer     *time.Timer
}

// Ordered makes a stream of the events that the rings hold and of those to come. It fails if the
// rings have no times, with [ErrBusy] if they are being read, and with os.ErrClosed.
func (r *Reader) Ordered(o OrderOptions) (*Ordered, error) {
	o.Mode = o.Mode.effective()
	if o.Mode.slack < 0 {
		return nil, fmt.Errorf("perfbuf.Ordered: slack is %v: must not be negative", o.Mode.slack)
	}
	if r.opts.NoTime {
		return nil, fmt.Errorf("perfbuf.Ordered: the rings were opened with Options.NoTime: ordering needs the kernel's times")
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	raws := make([]*raw.Ring, len(r.rings))
	for i, ring := range r.rings {
		if err := ring.claim(ordering); err != nil {
			for _, claimed := range r.rings[:i] {
				claimed.disclaim()
			}
			return nil, err
		}
		raws[i] = ring.raw
	}
	s := &Ordered{
		reader:  r,
		mode:    o.Mode,
		clock:   r.clock,
		gone:    make(chan struct{}),
		heads:   make([]uint64, len(r.rings)),
		tallies: make([]tally, len(r.rings)),
		timer:   time.NewTimer(time.Hour),
	}
	s.merger = merge.New(raws, s.committed)
	return s, nil
}

// Mode returns the mode in effect.
func (s *Ordered) Mode() Mode { return s.mode }

// Close ends the stream. The Reader stays open, and the rings may be read by other means; events
// not yet delivered are still in them. One that was delivered although an earlier one of its ring
// is still held, because interrupts had put the two in the wrong order, is then read a second time.
// It does not block: a running Wait or pass ends with os.ErrClosed. The error is always nil.
func (s *Ordered) Close() error {
	if s.closing.CompareAndSwap(false, true) {
		close(s.gone)
		s.reader.poll.interrupt()
	}
	if s.busy.CompareAndSwap(false, true) { // for good
		s.disband()
	}
	return nil
}

func (s *Ordered) disband() {
	for _, ring := range s.reader.rings {
		ring.late = false // for reads without order
		ring.disclaim()
	}
}

// acquire makes the caller the only one in the stream.
func (s *Ordered) acquire() error {
	if s.closing.Load() {
		return os.ErrClosed
	}
	if err := s.reader.enter(); err != nil {
		return err
	}
	if !s.busy.CompareAndSwap(false, true) {
		s.reader.leave()
		if s.closing.Load() {
			return os.ErrClosed
		}
		return fmt.Errorf("%w: another goroutine, or the function that events are handed to, uses this Ordered stream", ErrBusy)
	}
	return nil
}

func (s *Ordered) release() {
	s.busy.Store(false)
	if s.closing.Load() {
		s.Close() // which could not finish while we were busy
	}
	s.reader.leave()
}

// scan takes into account what the rings hold, and returns the clock as it was before.
func (s *Ordered) scan() (now uint64) {
	now = s.clock()
	for i, ring := range s.reader.rings {
		s.heads[i] = ring.raw.Head()
		ring.counts.observe(s.held(i))
	}
	// No event seen is later than the clock now. A second is for clocks that disagree, with room to spare.
	ceiling := s.clock() + uint64(time.Second)
	for i := range s.heads {
		found := s.merger.Scan(i, s.heads[i], ceiling)
		s.tallies[i].unknown += uint64(found.Unknown)
		s.reader.counts.inversions.Add(uint64(found.Inversions))
	}
	return now
}

// held is how much a ring held when it was scanned. Its tail is ours alone to move.
func (s *Ordered) held(i int) uint64 {
	ring := s.reader.rings[i].raw
	return min(s.heads[i]-ring.Tail(), ring.Size())
}

func (s *Ordered) begin(p *pass) error { return s.round(p, false) }

// round starts the delivery of what is due, or of all that the rings hold.
func (s *Ordered) round(p *pass, all bool) error {
	if err := s.acquire(); err != nil {
		return err
	}
	now := s.scan()
	watermark := uint64(math.MaxUint64 - 1)
	if !all {
		watermark = now - min(uint64(s.mode.slack), now)
	}
	s.lastRound = now
	s.merger.Begin(watermark)
	s.reader.counts.passes.Add(1)
	p.reader, p.ordered = s.reader, s
	return nil
}

func (s *Ordered) next(p *pass) (Event, bool) {
	if poison && s.with != nil {
		s.with.expire()
	}
	if s.closing.Load() || s.reader.closed.Load() {
		p.err = os.ErrClosed
		return Event{}, false
	}
	it := s.merger.Next()
	if it == nil {
		return Event{}, false
	}
	ring := s.reader.rings[it.Ring]
	s.with = ring
	if it.Kind == raw.Sample {
		if poison {
			ring.divert(&it.Record)
		}
	} else {
		it.Time = it.Key
		ring.after = it.After
	}
	if ring.late = it.Late; it.Late {
		s.countLate(it.Time)
	}
	s.tallies[it.Ring].add(&it.Record)
	return Event{ring, &it.Record}, true
}

func (s *Ordered) countLate(time uint64) {
	c := &s.reader.counts
	c.late.Add(1)
	if last := s.merger.Last(); last > time && last-time > c.maxLateness.Load() {
		c.maxLateness.Store(last - time)
	}
}

// committed is told by the merger that a ring's tail was published.
func (s *Ordered) committed(i int, bytes uint64) {
	c := &s.reader.rings[i].counts
	c.commits.Add(1)
	c.bytes.Add(bytes)
	s.tallies[i].flush(c)
}

func (s *Ordered) end(p *pass) {
	if poison && s.with != nil {
		s.with.expire()
	}
	s.with = nil
	s.merger.End()
	for i := range s.tallies {
		s.tallies[i].flush(&s.reader.rings[i].counts)
	}
	s.release()
}

// Wait blocks until a pass would deliver something, ctx is done, or the stream or its reader is
// closed. Its errors are those of [Reader.Wait].
//
// It paces passes, so that a steady flow is read in batches: the next one comes half the slack
// after the one before at the earliest (5 ms at most). With a wake-up policy that has a linger time
// ([Wakeup]), it comes after that time, or when a ring holds as much as wakes the reader.
func (s *Ordered) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	linger := s.reader.opts.Wakeup.Linger
	least := min(s.mode.slack/2, 5*time.Millisecond)
	pace := max(least, linger)
	for {
		now := s.scan()
		first, held := s.merger.Earliest()
		if !held {
			if err := s.reader.wait(ctx, s, 0); err != nil {
				return err
			}
			continue
		}
		if s.filling() {
			pace = min(pace, least)
		}
		due := first + uint64(s.mode.slack)
		if next := s.lastRound + uint64(pace); next > due {
			due = next
		}
		if due <= now {
			return nil
		}
		if linger == 0 {
			if err := s.sleep(ctx, time.Duration(due-now)); err != nil {
				return err
			}
			continue
		}
		if err := s.reader.wait(ctx, s, time.Duration(due-now)); err != nil {
			return err
		}
		pace = 0 // woken before that time: a ring is filling up
	}
}

// filling reports whether a ring held, when it was scanned, as much as wakes the reader. The
// wake-up itself may have come during the last round, and is gone then.
func (s *Ordered) filling() bool {
	enough := s.reader.opts.threshold()
	for i := range s.heads {
		if s.held(i) >= enough {
			return true
		}
	}
	return false
}

func (s *Ordered) sleep(ctx context.Context, d time.Duration) error {
	s.timer.Reset(d)
	select {
	case <-s.timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.gone:
		return os.ErrClosed
	case <-s.reader.done:
		return os.ErrClosed
	}
}

// ForEach calls f for every event whose turn has come, in order, without waiting. See [TryFold];
// what it says of a ring's tail holds of all tails together.
func (s *Ordered) ForEach(f func(Event) error) error { return forEach(s, f) }

// Flush calls f for every event that the rings hold, in order, without waiting for any to come of
// age. It is for the end, when the programs are detached; events that come after it with earlier
// times are late.
func (s *Ordered) Flush(f func(Event) error) error {
	var p pass
	if err := s.round(&p, true); err != nil {
		return err
	}
	defer p.end()
	return each(&p, f)
}

// Run calls f for each event as its turn comes. It returns what [Reader.Run] does.
func (s *Ordered) Run(ctx context.Context, f func(Event) error) error { return run(ctx, s, f) }

// Events iterates over events as their turns come, waiting in between. Errors are those of [Reader.Events].
func (s *Ordered) Events(ctx context.Context) iter.Seq2[Event, error] { return stream(ctx, s) }

// Records iterates over copies of events as their turns come, waiting in between. Errors are those
// of [Reader.Events].
func (s *Ordered) Records(ctx context.Context) iter.Seq2[Record, error] { return records(ctx, s) }
