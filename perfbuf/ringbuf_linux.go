package perfbuf

import "github.com/ringfold/ringfold/internal/ringbuf"

// OpenRingBuf returns a reader of the BPF ring buffer that mapFD refers to, or of those in an array
// or hash of maps, such as one per CPU; those that are put there later are found within a second.
// Each is a [Ring] of the reader. They work like perf event arrays: the ways of reading, [Event],
// order, [Stats]. What differs:
//
//   - [Event.Bytes] is what the program has written, without padding. Time and CPU come from the payload.
//   - There is one reader of a ring buffer. If another reads it too, each misses what the other gets, and may get damaged events.
//     [RingStats].Shared counts how often this was noticed.
//   - Events stay in the map until they are read. Open and Close change nothing for programs, and [Reader.Pause] is an error.
//   - A record that a program has reserved and not submitted holds up those behind it, but not in an [Ordered] stream.
//   - The kernel wakes the reader at an event, as soon as it has read all before.
//
// mapFD is duplicated. OpenRingBuf does not block. It fails with a [*MapError] for another type of map or one without
// a ring buffer, with a [*PermissionError] where privilege is lacking (CAP_SYS_ADMIN, for ring buffers within another map), and otherwise with an
// error that wraps the errno. Linux 5.8 or newer.
func OpenRingBuf(mapFD int, o RingBufOptions) (*Reader, error) {
	o, err := o.effective()
	if err != nil {
		return nil, err
	}
	cpuAt := -1
	if o.CPU.payload {
		cpuAt = o.CPU.offset
	}
	return openRingBufs(&ringbuf.Opener{FD: mapFD, TimeAt: o.Time.at(), CPUAt: cpuAt, LossesFD: o.LossesFD}, o)
}
