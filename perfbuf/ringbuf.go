package perfbuf

import "time"

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
