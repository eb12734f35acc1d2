package perfbuf

import "context"

// Wait blocks until a pass would deliver something, ctx is done, or the stream or a reader of it is
// closed. Nil is a hint that events were due a moment ago; a pass delivers them.
//
// The wakeup policy decides when it returns nil (see [Wakeup]). By default that is at once when a
// rare event comes. While events are frequent, it is every poll interval, or sooner when a ring
// fills up. After a [Stream.Flush], and when another reader has taken the map ([ErrDisplaced]), it
// returns as soon as a pass can answer.
//
// Errors are context.Cause(ctx), which takes precedence, os.ErrClosed, [ErrBusy] if the stream is
// being used, and, in exact mode, [ErrBarriers]. Wait blocks no thread: it parks the goroutine on
// libbpf's epoll descriptor (perf_buffer__epoll_fd) in the Go runtime's poller.
//
// In order, it keeps rings from filling up meanwhile: see [Spill]. It paces passes, so that a
// steady flow is read in batches. In exact mode the barriers do that. In slack mode the next pass
// comes half the slack after the one before at the earliest (5 ms at most). A plain wakeup policy
// with a poll interval delays the next pass by that time, or until a ring holds enough to wake the
// reader. With the doorbell, a stream that holds nothing looks at busy rings once per slack or
// barrier interval, at most once per ms.
func (s *Stream) Wait(ctx context.Context) error { return s.in.Wait(ctx, ErrBarriers) }
