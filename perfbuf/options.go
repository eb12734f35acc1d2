package perfbuf

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"
)

// Options configures the rings. The zero value is good for most uses. BPF ring buffers lack some:
// see [OpenRingBuf]. [Reader.Options] returns the options in effect: defaults filled in, sizes
// rounded.
type Options struct {
	// Name is what [Event.Source] returns of the reader's events. "" is the map's name.
	Name string

	// RingBytes is the size of each CPU's ring in bytes, rounded up to a power of two of pages. 0
	// is 256 KiB, the most is 1 GiB. Without CAP_IPC_LOCK the kernel grants 512 KiB
	// (perf_event_mlock_kb).
	RingBytes int

	// TotalBytes sets RingBytes from a budget for all rings together, rounding down. Set one of the
	// two. Rings of CPUs that come online later have the same size, and add to the total.
	TotalBytes int

	// CPUs selects the CPUs to read. nil reads all that are online, now or later. An offline CPU is
	// an error, and so is an empty slice. A CPU that goes offline later is read again when it is
	// back.
	CPUs []int

	// Wakeup is when the kernel wakes a waiting reader.
	Wakeup Wakeup

	// Schedule chooses which ring a pass over all of them reads first. nil is [FullestFirst].
	Schedule Schedule

	// Time is what orders events in a stream: the kernel's time if it is zero, a [PayloadTime], a
	// [PayloadBootTime], or, of a BPF ring buffer, a [StampedTime].
	Time TimeSource

	// CPU is where payloads in BPF ring buffers hold the CPU number: a [PayloadCPU]. Without it
	// [Event.CPU] is -1. For ring buffers in an array it is the index there, which is the CPU if
	// there is a ring buffer per CPU. Perf events have it from their rings.
	CPU CPUSource

	// NoTime opens rings without kernel timestamps, which saves 8 bytes and about 60 ns per event.
	// [Event.Time] is then 0, and ordering needs a [PayloadTime].
	NoTime bool

	// LanesFD is the map of lanes of programs that output with bpf/perfbuf_output.h or
	// bpf/perfbuf_ringbuf.h to this reader's map, and count there what becomes of each output: the
	// kernel counts only those that a full perf ring refused. Stats.Outputs has the counts, which
	// takes no system call. What a BPF ring buffer refused also arrives as events of [KindLost],
	// with their CPU. Open maps it, and the descriptor stays yours. 0 is none; if a program without
	// stdin gets 0 for a map, it must duplicate it. A simulated kernel ignores LanesFD, Lanes and
	// ProgFDs.
	LanesFD int
	// Lanes are the lanes' shares, in percent: while a CPU's ring holds more than that of its
	// bytes, its programs shed outputs in the lane, which arrive as events of [KindShed]. So what
	// is above the largest lower share is kept for the others. A lane without a share here has all,
	// and loses events only when the ring is full. CPUs share a BPF ring buffer, so lower lanes may
	// take up to one event for each CPU of what is kept for others; of several, in an array, it is
	// the one under the CPU's number, else shares are of the smallest.
	Lanes []int

	// ProgFDs are programs whose skipped runs Stats.Outputs counts, by a system call for each. Open
	// duplicates the descriptors.
	ProgFDs []int
}

// Wakeup is when the kernel wakes a waiting reader. A wakeup costs the traced program some
// microseconds, on the CPU that outputs.
//
// The zero value is the doorbell, which works per CPU. While events are rare, each wakes the reader
// at once: some 16 in a row, and 1,000 a second, which costs the CPU's programs 1 % of their time.
// When more come, they stop waking it: the reader polls every PollInterval, and a ring a quarter
// full wakes it early, until nothing has come for two of these intervals. Without events, nothing
// polls. The doorbell takes a second perf event per CPU, and a map update when a CPU becomes busy
// or quiet. If the second event cannot be opened, Open falls back to Bytes of a quarter of the
// ring, as [Reader.Options] and [Stats].Doorbell then show.
//
// With Events of 1, each event wakes the reader, which never polls. With larger Events, or with
// Bytes, a few events do not wake the reader, so Wait polls every PollInterval: no event is
// stranded, and an idle reader wakes up that often.
//
// With BPF ring buffers the program decides, and only PollInterval has an effect.
type Wakeup struct {
	// Events wakes the reader after this many events on a CPU (perf_event_attr.wakeup_events). Wait
	// returns at once if a ring may hold that many already. It judges by bytes, so it can be early
	// when events are large.
	Events int
	// Bytes wakes the reader after this many bytes of records on a CPU
	// (perf_event_attr.wakeup_watermark), at most half of the ring. Set Events or Bytes, or
	// neither.
	Bytes int
	// PollInterval is the time between two polls, and so the longest that events wait unseen. 0 is
	// 5 ms with the doorbell, 100 ms with BPF ring buffers and 10 ms otherwise; the least is
	// 100 µs. It has no effect if each event on a CPU wakes. Before Linux 5.11 polls are no finer
	// than a millisecond. docs/delivery.md says what shorter intervals cost.
	PollInterval time.Duration
}

func (w Wakeup) doorbell() bool { return w.Events == 0 && w.Bytes == 0 }

func (w Wakeup) tooShort() bool { return w.PollInterval > 0 && w.PollInterval < leastPollInterval }

const shortPolls = "Wakeup.PollInterval is %v: use at least %v, or 0 for the default"

const (
	defaultRingBytes    = 256 << 10
	maxRingBytes        = 1 << 30
	defaultPollInterval = 10 * time.Millisecond
	bellPollInterval    = 5 * time.Millisecond
	// A shorter deadline may pass before the poller gets it
	leastPollInterval  = 100 * time.Microsecond
	defaultRingBufPoll = 100 * time.Millisecond
)

// effective checks the options and fills in defaults, except for CPUs, of which there are n. It
// copies CPUs, so the caller may change the slice later.
func (o Options) effective(n int) (Options, error) {
	o.CPUs = slices.Clone(o.CPUs)
	bad := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf(format, args...)
	}
	if err := o.check(); err != nil {
		return o, err
	}
	page := os.Getpagesize()
	switch {
	case o.RingBytes < 0:
		return bad("RingBytes is %d: use 0 for the default of %d, or a size in bytes", o.RingBytes, defaultRingBytes)
	case o.TotalBytes < 0:
		return bad("TotalBytes is %d: use 0, or a size in bytes", o.TotalBytes)
	case o.RingBytes > 0 && o.TotalBytes > 0:
		return bad("both RingBytes and TotalBytes are set: set one")
	case o.RingBytes > maxRingBytes:
		return bad("RingBytes is %d: use at most %d (1 GiB) per CPU", o.RingBytes, maxRingBytes)
	case o.TotalBytes/n > maxRingBytes:
		return bad("TotalBytes is %d: use at most %d (1 GiB) per CPU, %d in all", o.TotalBytes, maxRingBytes, n*maxRingBytes)
	case o.TotalBytes > 0:
		if o.TotalBytes/n < page {
			return bad("TotalBytes is %d: %d CPUs need at least a page of %d bytes each, %d in all", o.TotalBytes, n, page, n*page)
		}
		o.RingBytes = 1 << (bits.Len(uint(o.TotalBytes/n)) - 1)
	case o.RingBytes == 0:
		o.RingBytes = defaultRingBytes
	}
	o.RingBytes = max(page, 1<<bits.Len(uint(o.RingBytes-1)))
	o.TotalBytes = 0                   // not needed from here on
	o.NoTime = o.NoTime || o.Time.boot // the kernel's are of another clock
	if o.Time.stamped {
		return bad("Time is a StampedTime, which only BPF ring buffers have: use PayloadTime")
	}
	if o.CPU.payload {
		return bad("CPU is a PayloadCPU, which only BPF ring buffers need: leave it out")
	}
	o.Lanes = slices.Clone(o.Lanes)

	w := &o.Wakeup
	switch {
	case w.Events > 0 && w.Bytes > 0:
		return bad("both Wakeup.Events and Wakeup.Bytes are set: set one")
	case int64(w.Events) >= 1<<31:
		return bad("Wakeup.Events is %d: must be below 2^31", w.Events)
	case w.Events != 1 && w.tooShort():
		return bad(shortPolls, w.PollInterval, leastPollInterval)
	case w.Bytes > o.RingBytes/2:
		return bad("Wakeup.Bytes is %d: use at most half of the ring's %d bytes, to leave room while the reader wakes up", w.Bytes, o.RingBytes)
	}
	switch {
	case w.Events == 1:
		w.PollInterval = 0
	case w.PollInterval > 0:
	case w.doorbell():
		w.PollInterval = bellPollInterval
	default:
		w.PollInterval = defaultPollInterval
	}
	return o, nil
}

// effectiveRingBuf is effective for BPF ring buffers.
func (o Options) effectiveRingBuf() (Options, error) {
	if err := o.check(); err != nil {
		return o, err
	}
	w := &o.Wakeup
	switch {
	case o.RingBytes != 0 || o.TotalBytes != 0 || o.CPUs != nil || o.NoTime || len(o.ProgFDs) > 0 || w.Events > 1 || w.Bytes > 0:
		return o, errors.New("RingBytes, TotalBytes, CPUs, NoTime, ProgFDs, or Wakeup's Events or Bytes is set, which BPF ring buffers do not have: leave them out")
	case w.tooShort():
		return o, fmt.Errorf(shortPolls, w.PollInterval, leastPollInterval)
	}
	if w.Events = 1; w.PollInterval == 0 {
		w.PollInterval = defaultRingBufPoll
	}
	o.Lanes = slices.Clone(o.Lanes)
	return o, nil
}

// check checks the options that do not depend on the type of the map.
func (o Options) check() error {
	w := o.Wakeup
	switch {
	case w.Events < 0 || w.Bytes < 0 || w.PollInterval < 0:
		return fmt.Errorf("Wakeup is %+v: its fields must not be negative", w)
	case o.Time.offset < 0 || o.CPU.offset < 0:
		return fmt.Errorf("Time is at offset %d and CPU at %d: must not be negative", o.Time.offset, o.CPU.offset)
	case len(o.Lanes) > 0 && o.LanesFD == 0:
		return errors.New("shares in Lanes, but LanesFD is 0: name the programs' map of lanes there")
	}
	for _, percent := range o.Lanes {
		if percent < 1 || percent > 100 {
			return fmt.Errorf("a share of %d %% in Lanes: use 1 to 100", percent)
		}
	}
	return nil
}

// watermark returns how many bytes of records wake the reader, or 0 if the policy counts events.
func (o Options) watermark() int {
	if o.Wakeup.doorbell() {
		return o.RingBytes / 4
	}
	return o.Wakeup.Bytes
}

// threshold returns how many bytes in one ring make a Wait return at once. It replaces a wakeup
// that came while nobody waited, so it must not exceed the size that causes one.
func (o Options) threshold() uint64 {
	switch {
	case o.watermark() > 0:
		return uint64(o.watermark())
	case o.Wakeup.Events > 1:
		// Events cannot be counted without reading them. The same bytes may be fewer, larger
		// events.
		smallest := 24 // header, time, raw_size and four bytes
		if o.NoTime {
			smallest = 16
		}
		return uint64(min(o.Wakeup.Events*smallest, o.RingBytes/2))
	default:
		return 1
	}
}
