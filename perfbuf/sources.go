package perfbuf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/stream"
)

// Merge opens one stream of the events of several readers, those that their rings hold and those to
// come, in order of time, or [Unordered]. [Event.Source] says which reader an event is from. Each
// keeps its own options and statistics, and its losses come as its events. Of one reader, it is
// [Reader.Stream].
//
// In exact mode no event of any of them is late: a barrier covers all BPF programs on the machine.
// Readers may be added and removed later: see [Stream.Add]. Closing one of them ends the stream,
// with os.ErrClosed.
//
// Merge fails if options are invalid, if a reader or map is passed twice, with [ErrBusy] if another
// Stream holds rings, with os.ErrClosed, or if it cannot wait for the readers together, as with
// EMFILE (epoll_ctl). After an error the readers are unchanged. Exact mode also fails if the
// process has no way to wait for an RCU grace period. The error lists the ways it tried: see
// [Barriers]. The first exact stream of a process blocks for 20 to 50 ms, in which it compares
// these and proves [BindMount]; on a busy machine that takes up to 0.4 s. Later ones block for a
// grace period.
func Merge(o StreamOptions, readers ...*Reader) (*Stream, error) {
	if len(readers) == 0 {
		return nil, errors.New("perfbuf.Merge: no readers: pass at least one")
	}
	o, err := o.effective(readers)
	if err != nil {
		return nil, err
	}
	if o.MaxDelay > 0 && !slices.ContainsFunc(readers, func(r *Reader) bool { s := r.in.Parts.Shedder; return s != nil && s.Lanes() > 1 }) {
		return nil, fmt.Errorf("perfbuf.Stream: MaxDelay is %v, but no reader has several lanes: set Options.LanesFD", o.MaxDelay)
	}
	s := &Stream{opts: o, boot: readers[0].opts.Time.boot}
	if err := s.sameClock(readers); err != nil {
		return nil, err
	}
	so := engine.StreamOptions{Unordered: o.Order.mode == noOrder, Barriers: grace.Set(o.Barriers), MaxDelay: o.MaxDelay, Order: stream.Options{
		Exact: o.Order.mode == exactOrder, Interval: o.BarrierInterval, Slack: o.Order.slack, DropLate: o.DropLate, FlushEvery: o.FlushEvery,
		Spill: max(o.Spill.Bytes, 0), Above: o.Spill.Above, Until: o.Spill.Until,
	}}
	in := make([]*engine.Reader, len(readers))
	for i, r := range readers {
		in[i] = &r.in
	}
	s.in, err = engine.NewStream(&s.batch.pass, so, in)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// effective checks the options and fills in defaults, for a stream of these readers.
func (o StreamOptions) effective(readers []*Reader) (StreamOptions, error) {
	bad := func(format string, args ...any) (StreamOptions, error) {
		return o, fmt.Errorf("perfbuf.Stream: "+format, args...)
	}
	size := 0 // of all rings
	for _, r := range readers {
		if r == nil {
			return o, errNilReader
		}
		for _, ring := range r.all() {
			size += ring.Size()
		}
		switch {
		case o.Order.mode == noOrder: // which needs no times
		case r.ringBuf() && !r.opts.Time.payload:
			return bad("records of a BPF ring buffer have no time: put one into the payload, and set Options.Time to its offset")
		case r.opts.NoTime && !r.opts.Time.payload:
			return bad("the rings were opened with Options.NoTime, and so have no times: open them without it, or set Options.Time to a PayloadTime")
		case o.Barriers == NestLevels && r.opts.Time.early():
			return bad("Barriers is NestLevels alone, which waits for outputs, not for programs that have taken their PayloadTime: allow another, too")
		}
	}
	sp := &o.Spill
	switch {
	case o.Order.slack < 0:
		return bad("slack is %v: must not be negative", o.Order.slack)
	case o.Barriers&^allBarriers != 0:
		return bad("Barriers is %#x: use only NestLevels, BindMount, MapInMap and Membarrier", uint8(o.Barriers))
	case o.MaxDelay < 0:
		return bad("MaxDelay is %v: must not be negative", o.MaxDelay)
	case o.FlushEvery < 0 || o.FlushEvery > 0 && o.FlushEvery < leastFlushEvery:
		return bad("FlushEvery is %v: must be at least %v, or 0 for never", o.FlushEvery, leastFlushEvery)
	case o.FlushEvery > 0 && o.Order.mode == noOrder:
		return bad("FlushEvery is %v: an unordered stream has no watermark to send: use exact order or Slack, or call Flush", o.FlushEvery)
	case o.FlushEvery > 0 && o.Order.mode == exactOrder && o.FlushEvery < o.BarrierInterval:
		return bad("FlushEvery is %v, and BarrierInterval %v: must not be longer, because each flush takes a barrier", o.FlushEvery, o.BarrierInterval)
	case sp.Above < 0 || sp.Above > 100 || sp.Until < 0 || sp.Until > 100:
		return bad("Spill.Above is %d and Spill.Until %d: use percentages of a ring, 0 to 100", sp.Above, sp.Until)
	}
	if sp.Above == 0 {
		sp.Above = 50
	}
	if sp.Until == 0 {
		sp.Until = sp.Above / 2
	}
	if sp.Until > sp.Above {
		return bad("Spill.Until is %d: must not be above Spill.Above, %d", sp.Until, sp.Above)
	}
	if sp.Bytes == 0 {
		sp.Bytes = max(size, leastSpill)
	}
	sp.Bytes = max(sp.Bytes, -1)
	if o.BarrierInterval == 0 {
		o.BarrierInterval = defaultBarrierInterval
	}
	o.BarrierInterval = max(o.BarrierInterval, -1)
	return o, nil
}

// Stream opens a stream of the events of this reader alone: see [Merge].
func (r *Reader) Stream(o StreamOptions) (*Stream, error) { return Merge(o, r) }

// Add makes a reader a source of the stream. The stream delivers its events from the next pass on,
// including those that its rings hold already. Those older than the stream's latest event, or, in
// exact mode, than [Stream.Watermark], are late, so add a reader before you attach its programs.
// Add may be called from anywhere at any time. It blocks for a grace period if the reader needs a
// barrier and the stream has none that covers it. Errors are those of [Merge], and os.ErrClosed of
// a closed stream. An error leaves everything unchanged.
func (s *Stream) Add(r *Reader) error {
	readers := []*Reader{r}
	if _, err := s.opts.effective(readers); err != nil {
		return err
	}
	if err := s.sameClock(readers); err != nil {
		return err
	}
	return s.in.Add(&r.in)
}

// sameClock refuses readers whose times cannot be compared with the stream's.
func (s *Stream) sameClock(readers []*Reader) error {
	for _, r := range readers {
		if s.opts.Order.mode != noOrder && r.opts.Time.boot != s.boot {
			return errors.New("perfbuf.Stream: some sources have a PayloadBootTime, and others times of CLOCK_MONOTONIC: open all with times of one clock")
		}
	}
	return nil
}

// Remove takes a reader out of the stream. It drops those of its events that the stream has seen
// and not delivered, and counts them as dropped. To get them, end the programs' outputs first, as
// [Reader.Pause] does, and wait for the marker of a [Stream.Flush]. In a BPF ring buffer, records
// behind one that is reserved and not submitted stay there, and the next reader gets them again,
// even if the stream has delivered them. The reader stays open, and its rings may be read in other
// ways.
//
// Remove may be called from anywhere at any time, and does not block. A pass that is under way
// still delivers events of the reader, and until it ends, other reads return [ErrBusy]. You may
// close the reader at once: the stream goes on. It is an error if the reader is not a source.
func (s *Stream) Remove(r *Reader) error {
	if r == nil {
		return errNilReader
	}
	return s.in.Remove(&r.in)
}

var errNilReader = errors.New("perfbuf.Stream: the reader is nil: pass one that Open or OpenRingBuf has returned")
