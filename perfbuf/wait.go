package perfbuf

import "context"

// Wait blocks until there is something to read, ctx is done or the reader is closed. Nil is a hint:
// the rings hold events, or did a moment ago; a pass says which.
//
// The wakeup policy decides when it returns nil (see [Wakeup]). By default that is at once when a
// rare event comes. While events are frequent, it is every poll interval, or sooner when a ring fills
// up. After a [Reader.Flush], and when another reader has taken the map ([ErrDisplaced]), it returns at
// once, and a pass answers.
//
// Errors are context.Cause(ctx), which takes precedence, os.ErrClosed, and [ErrBusy] if another
// goroutine waits already, for the Reader or for one of its rings, or a [Stream] holds the
// rings. Wait blocks no thread: it parks the goroutine on libbpf's epoll descriptor
// (perf_buffer__epoll_fd) in the Go runtime's poller.
func (r *Reader) Wait(ctx context.Context) error { return r.in.Wait(ctx, -1) }

// Wait is [Reader.Wait] for one ring, to read each ring in a goroutine of its own. Any number of
// goroutines may wait at the same time, one per ring, but not for the Reader too: that returns
// [ErrBusy]. A [Reader.Flush] ends it once, if the ring holds something then.
func (r *Ring) Wait(ctx context.Context) error { return r.reader.in.Wait(ctx, r.index) }

// Run is [Reader.Run] for one ring, for a goroutine of its own: see [Ring.Wait].
func (r *Ring) Run(ctx context.Context, f func(Event) error) error { return run(ctx, r, f) }

// Wait blocks until a pass would deliver something, ctx is done, or the stream or a reader of it is closed.
// Its errors are those of [Reader.Wait], and, in exact mode, [ErrBarriers]. Meanwhile it keeps rings
// from filling up: see [Spill].
//
// It paces passes, so that a steady flow is read in batches. In exact mode the barriers do that. In
// slack mode the next pass comes half the slack after the one before at the earliest (5 ms at most).
//
// A plain wakeup policy with a poll interval ([Wakeup]) delays the next pass by that time, or until a
// ring holds enough to wake the reader. With the doorbell, a stream that holds nothing looks at busy
// rings once per slack or barrier interval, at most once per ms.
func (s *Stream) Wait(ctx context.Context) error { return s.in.Wait(ctx, ErrBarriers) }
