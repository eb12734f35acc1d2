package perfbuf

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
)

// RingBufOptions configures how to read BPF ring buffers. The zero value is good for reading
// without order.
type RingBufOptions struct {
	// Name is what [Event.Source] returns: see [Options].
	Name string

	// Time says where payloads hold their time: a [PayloadTime], [PayloadBootTime] or
	// [StampedTime]. The kernel takes none, so without it [Event.Time] is 0, and a stream refuses
	// the reader. A payload that is too short for it gets the time of its predecessor, and
	// Stats.Untimed counts it.
	Time TimeSource

	// CPU says where payloads hold the CPU number: a [PayloadCPU]. Without it [Event.CPU] is -1.
	// For ring buffers in an array it is the index there, which is the CPU if there is a ring
	// buffer per CPU.
	CPU CPUSource

	// PollInterval is the time between two polls, for programs that wake nobody (BPF_RB_NO_WAKEUP).
	// 0 is 100 ms, the least is 100 µs.
	PollInterval time.Duration

	// Schedule chooses which of several ring buffers a pass reads first. nil is [FullestFirst].
	Schedule Schedule

	// LanesFD is the map of lanes of programs that use bpf/perfbuf_ringbuf.h. They count there the
	// outputs that failed, because the kernel does not. These arrive as events of [KindLost] with
	// their CPU, and in Stats.Outputs. OpenRingBuf maps it, and the descriptor stays yours. 0 is
	// none.
	LanesFD int
	// Lanes are the lanes' shares of a ring buffer, in percent: see [Options]. CPUs share it, so
	// lower lanes may take up to one event for each CPU of what is kept for others. Of several ring
	// buffers, in an array, it is the one under the CPU's number; else shares are of the smallest.
	Lanes []int
}

// CPUSource says where payloads hold their CPU number. The zero value means nowhere.
type CPUSource struct {
	payload bool
	offset  int
}

// PayloadCPU is a uint32 at this byte offset of the payload, as bpf_get_smp_processor_id returns
// it.
func PayloadCPU(offset int) CPUSource { return CPUSource{payload: true, offset: offset} }

// Offset returns where a payload holds the CPU number, or -1 for nowhere.
func (c CPUSource) Offset() int {
	if c.payload {
		return c.offset
	}
	return -1
}

const defaultRingBufPoll = 100 * time.Millisecond

// effective checks the options and fills in defaults.
func (o RingBufOptions) effective() (RingBufOptions, error) {
	switch {
	case o.Time.payload && o.Time.offset < 0 || o.CPU.offset < 0:
		return o, fmt.Errorf("perfbuf.RingBufOptions: Time is at offset %d and CPU at %d: must not be negative", o.Time.offset, o.CPU.offset)
	case o.PollInterval < 0 || o.PollInterval > 0 && o.PollInterval < leastPollInterval:
		return o, fmt.Errorf("perfbuf.RingBufOptions: PollInterval is %v: use at least %v, or 0 for the default", o.PollInterval, leastPollInterval)
	case o.PollInterval == 0:
		o.PollInterval = defaultRingBufPoll
	}
	if err := checkLanes(o.LanesFD, o.Lanes); err != nil {
		return o, fmt.Errorf("perfbuf.RingBufOptions: %w", err)
	}
	return o, nil
}

// open returns a reader of ring buffers. The Opener knows the offsets of fields in payloads.
func (o RingBufOptions) open(from kernel.Opener) (*Reader, error) {
	o, err := o.effective()
	if err != nil {
		from.Close()
		return nil, err
	}
	k, err := kernel.OpenOnline(from, func([]int) (s kernel.Setup, err error) { return s, nil })
	if err != nil {
		return nil, err
	}
	return start(k, Options{Name: o.Name, Time: o.Time, Schedule: o.Schedule, Wakeup: Wakeup{Events: 1, PollInterval: o.PollInterval}}, true), nil
}
