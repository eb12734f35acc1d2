package perfbuf

import "github.com/ringfold/ringfold/internal/ringbuf"

// OpenRingBuf returns a reader of the BPF ring buffer that mapFD refers to, or of those in an array
// or hash of maps, such as one per CPU. Each is a [Ring] of the reader. They work like perf event
// arrays: the ways of reading, [Event], order, [Stats]. What differs:
//
//   - [Event.Bytes] holds the program's bytes without padding.
//   - Time and CPU come from the payload: see [Options].Time and CPU. The kernel takes no times,
//     so without one [Event.Time] is 0, and an ordered stream refuses the reader. A payload that is
//     too short for it gets the time of its predecessor, and Stats.Untimed counts it.
//   - Ring buffers have the size of their maps, and are of all CPUs. It is an error to set
//     RingBytes, TotalBytes, CPUs, NoTime, ProgFDs, or Bytes or Events of the Wakeup.
//   - If programs wake nobody (BPF_RB_NO_WAKEUP), the reader finds their events by polls every
//     [Wakeup].PollInterval, by default every 100 ms.
//   - A ring buffer supports one reader. If another one reads it too, each misses the other's
//     events, and may get damaged ones. [RingStats].Shared counts how often the reader noticed.
//   - Events stay in the map until they are read. Open and Close change nothing for programs, and
//     [Reader.Pause] is an error.
//   - A record that a program has reserved but not submitted holds up those behind it; in a
//     [Stream], only under [StampedTime]. Their room becomes free only after it is submitted.
//   - The kernel wakes the reader for an event once the reader has read all events before it.
//   - If you store a ring buffer in the array or hash later, the reader finds it within a second
//     and loses nothing. But events older than those that a [Stream] has delivered are late
//     ([Event.Late]), in exact mode too: store all ring buffers before you open the map. The reader
//     still reads a ring buffer that was taken out. Once it is empty, and the programs that had
//     found it have ended, the reader releases its memory, and its Ring stays empty. The reader
//     misses outputs that a sleepable program makes after that. A reader follows 4,096 ring buffers
//     in its lifetime.
//
// OpenRingBuf duplicates mapFD and does not block. It fails with a [*MapError] for another type of
// map or one without a ring buffer, with a [*PermissionError] where privilege is lacking
// (CAP_SYS_ADMIN, for ring buffers within another map), and otherwise with an error that wraps the
// errno. Linux 5.8 or newer.
func OpenRingBuf(mapFD int, opts Options) (*Reader, error) {
	return OpenSource(&ringbuf.Opener{FD: mapFD}, opts)
}
