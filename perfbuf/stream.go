package perfbuf

import (
	"context"

	"github.com/ringfold/ringfold/internal/engine"
)

// Stream delivers the events of all CPUs of one reader ([Reader.Stream]) or of several ([Merge]),
// in the order of [StreamOptions], or those of one ring ([Ring.Stream]). In order, events stay in
// their rings until they are due, unless a ring fills up: see [Spill].
//
// In order, [Event.Time] never decreases, except at events marked [Event.Late]. Exact mode has no
// late events, except in the cases that [PayloadTime] and [Stream.Add] describe. With slack, an
// earlier event may follow a marker ([KindFlushed]). A loss comes just before the sample that
// reported it. A record whose time lies more than a second in the future is corrupt: see
// [KindCorrupt]. Times of different CPUs are as comparable as the kernel's clock is exact. Order in
// time is not causality.
//
// A stream holds its rings from its making to its Close: another Stream over one of them returns
// [ErrBusy]. Use it from one goroutine at a time: a second call that reads or waits returns
// [ErrBusy], also from the function that receives the stream's events. Add, Remove, Flush,
// Watermark, Options and Close may be called from anywhere at any time.
//
// # Passes
//
// A pass goes once over the rings and delivers the events that are due. Unordered, these are the
// events that the rings hold at its beginning, the fullest ring first: see [Schedule]. The tail of
// a ring, which gives its memory back to the kernel, is stored when the pass leaves the ring; if
// the ring was nearly full, also on the way. In order, tails are stored at the end of the pass, and
// whenever it has read an eighth of a ring.
//
// If your function returns an error, panics or calls runtime.Goexit, the pass ends and stores
// tails. The event that it received counts as consumed; those after it wait for the next pass.
type Stream struct {
	in    *engine.Stream
	opts  StreamOptions
	boot  bool // times are of CLOCK_BOOTTIME
	batch Batch
}

// Watermark returns the time up to which the stream is complete, in ns of CLOCK_MONOTONIC: f has
// returned from every event with this time or an earlier one, or DropLate has dropped it. In exact
// mode that is proven, and such an event is marked [Event.Late] if it comes all the same: from a
// source added since, or in a case that [PayloadTime] describes. In slack mode it is a guess. It
// never goes back, is 0 before the first pass, and stays as it is after Close. Unordered, it is
// always 0.
//
// It moves on at the end of a pass, before the markers of that pass. A pass that ends early,
// because f fails, panics or stops, leaves it before the first event that f did not get. While
// nothing happens, there are no passes: see [StreamOptions].FlushEvery. [Stream.ForEachPending]
// delivers events beyond it and proves nothing. After [Stream.Drain], in either mode, it is the
// time of the call or a later one; after [Stream.Shutdown] it is at most the error of the clocks,
// some 10 µs, before that.
//
// It covers events, not outputs: a loss before this time may be reported after it (see
// [Event.LostAfter]). It does not cover corrupt memory, which has no time of its own, or samples
// that carry no time under [PayloadTime].
//
// It is one atomic load, and may be called from any goroutine at any time. A goroutine that sees a
// time also sees what f did before.
func (s *Stream) Watermark() uint64 { return s.in.Complete() }

// Options returns the options in effect, with defaults filled in.
func (s *Stream) Options() StreamOptions { return s.opts }

// Close ends the stream and gives its rings back. In order, it drops events that the stream has
// seen and not delivered, and counts them as dropped in Stats. To read them first, call
// [Stream.Drain] or [Stream.ForEachPending]. Readers stay open, and their rings may have another
// Stream: at once if this one is idle, otherwise as soon as its running Wait or pass has ended,
// with os.ErrClosed. Close does not block. The error is always nil.
func (s *Stream) Close() error {
	s.in.Close()
	return nil
}

// Wait blocks until a pass would deliver something, ctx is done, or the stream or a reader of it is
// closed. Nil is a hint that events were due a moment ago; a pass delivers them.
//
// The wakeup policy decides when it returns nil (see [Wakeup]). By default that is at once when a
// rare event comes. While events are frequent, it is every poll interval, or sooner when a ring
// fills up. After a [Stream.Flush], and when another reader has taken the map ([ErrDisplaced]), it
// returns as soon as a pass can answer.
//
// Errors are context.Cause(ctx), which takes precedence, os.ErrClosed, [ErrBusy] if the stream is
// being used, and, in exact mode, [ErrBarriers]. Wait parks the goroutine on libbpf's epoll
// descriptor (perf_buffer__epoll_fd) in the Go runtime's poller. After eight waits within 6 ms each
// it blocks the thread in epoll_pwait2(2), for half the CPU time; once nothing has come for 50 ms,
// too, to be sooner at the next event, unless eight others of the process do so.
//
// In exact mode, Wait makes a barrier itself if the one before took less than 0.5 ms. It cannot be
// interrupted in that: if the kernel's grace period stalls, as on an overloaded host, Wait returns
// after it, also when ctx is done or the stream closed.
//
// In order, it keeps rings from filling up meanwhile: see [Spill]. It paces passes, so that a
// steady flow is read in batches. In exact mode the barriers do that. In slack mode the next pass
// comes half the slack after the one before at the earliest (5 ms at most). A plain wakeup policy
// with a poll interval delays the next pass by that time, or until a ring holds enough to wake the
// reader. With the doorbell, a stream that holds nothing looks at busy rings once per slack or
// barrier interval, at most once per ms.
func (s *Stream) Wait(ctx context.Context) error { return s.in.Wait(ctx, ErrBarriers) }
