package perfbuf

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/ringbuf"
)

// RingBufOptions configures the reading of BPF ring buffers. The zero value is good for reading without order.
type RingBufOptions struct {
	// Time is where payloads have their time: a [PayloadTime], or a [StampedTime]. Records have no other, so without it [Event.Time] is 0,
	// and a stream refuses the reader. A payload too short for it has the time of the one before, and Stats.Untimed counts it.
	Time TimeSource

	// CPU is where payloads have the number of the CPU, as [PayloadCPU] says. Without it [Event.CPU] is -1.
	CPU CPUSource

	// PollInterval is the time between two looks at ring buffers whose programs wake nobody (BPF_RB_NO_WAKEUP). 0 is 100 ms, the
	// least is 100 µs.
	PollInterval time.Duration

	// Schedule chooses which of several ring buffers a pass reads first. nil is [FullestFirst].
	Schedule Schedule

	// LossesFD is the map in which programs that use bpf/perfbuf_ringbuf.h count the outputs that failed, which the kernel does not. They
	// come as events of [KindLost] of their CPU, and as Stats.Outputs. OpenRingBuf duplicates the descriptor. 0 is none.
	LossesFD int
}

// CPUSource is where payloads have the number of their CPU. The zero value is nowhere.
type CPUSource struct {
	payload bool
	offset  int
}

// PayloadCPU is a uint32 at this byte offset of the payload, as bpf_get_smp_processor_id returns it.
func PayloadCPU(offset int) CPUSource { return CPUSource{payload: true, offset: offset} }

const defaultRingBufPoll = 100 * time.Millisecond

// OpenRingBuf returns a reader of the BPF ring buffer that mapFD refers to, or of those in an array or hash of maps, such as
// one per CPU; those that are put there later are found within a second. Each is a [Ring] of the reader. What holds for perf event arrays holds for them too: the ways of reading,
// [Event], order, [Stats]. What differs:
//
//   - [Event.Bytes] is what the program has written, without padding. Time and CPU come from the payload.
//   - There is one reader of a ring buffer. Nothing tells if somebody else reads it too; both then miss events.
//   - Events stay in the map until they are read. Open and Close change nothing for programs, and [Reader.Pause] is an error.
//   - A record that a program has reserved and not submitted holds up those behind it, but not in an [Ordered] stream.
//   - The kernel wakes the reader at an event, as soon as it has read all before.
//
// mapFD is duplicated. OpenRingBuf does not block. It fails with a [*MapError] for another type of map or one without
// a ring buffer, with a [*PermissionError] where privilege is lacking (CAP_SYS_ADMIN, for ring buffers within another map), and otherwise with an
// error that wraps the errno. Linux 5.8 or newer.
func OpenRingBuf(mapFD int, o RingBufOptions) (*Reader, error) {
	cpuAt := -1
	if o.CPU.payload {
		cpuAt = o.CPU.offset
	}
	switch {
	case o.Time.payload && o.Time.offset < 0 || o.CPU.offset < 0:
		return nil, fmt.Errorf("perfbuf.RingBufOptions: Time is at offset %d and CPU at %d: must not be negative", o.Time.offset, o.CPU.offset)
	case o.PollInterval < 0 || o.PollInterval > 0 && o.PollInterval < leastPollInterval:
		return nil, fmt.Errorf("perfbuf.RingBufOptions: PollInterval is %v: at least %v, or 0 for the default", o.PollInterval, leastPollInterval)
	case o.PollInterval == 0:
		o.PollInterval = defaultRingBufPoll
	}
	opener := &ringbuf.Opener{FD: mapFD, TimeAt: o.Time.at(), CPUAt: cpuAt, LossesFD: o.LossesFD}
	k, err := kernel.OpenOnline(opener, func([]int) (s kernel.Setup, err error) { return s, nil })
	if err != nil {
		opener.Close()
		return nil, public(err)
	}
	return start(k, Options{Time: o.Time, Schedule: o.Schedule, Wakeup: Wakeup{Events: 1, PollInterval: o.PollInterval}}, true), nil
}
