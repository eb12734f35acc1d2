package perfbuf

import "github.com/ringfold/ringfold/internal/ringbuf"

// OpenRingBuf returns a reader of the BPF ring buffer that mapFD refers to, or of those in an array
// or hash of maps, such as one per CPU. Each is a [Ring] of the reader. They work like perf event arrays:
// the ways of reading, [Event], order, [Stats]. What differs:
//
//   - [Event.Bytes] is what the program has written, without padding. Time and CPU come from the payload.
//   - There is one reader of a ring buffer. If another reads it too, each misses what the other gets, and may get damaged events.
//     [RingStats].Shared counts how often this was noticed.
//   - Events stay in the map until they are read. Open and Close change nothing for programs, and [Reader.Pause] is an error.
//   - A record that a program has reserved and not submitted holds up those behind it, in a [Stream] only under
//     [StampedTime]. Their room is not free again before it is submitted.
//   - The kernel wakes the reader at an event, as soon as it has read all before.
//   - A ring buffer that is put into the array or hash later is found within a second. Nothing is lost until then, but what is older than
//     a [Stream] has delivered comes late ([Event.Late]), in exact mode too: store all ring buffers before you open the map.
//     One that was taken out is read on; once it is empty, and the programs that had found it have ended, its memory is let go, and its Ring
//     stays empty. One that may sleep and outputs to it later still, is not heard. A reader follows 4,096 ring buffers from first to last.
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
