package perfbuf

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"
)

// Options says how to set rings up. The zero value is good for most uses. [Reader.Options] returns
// it with defaults filled in and sizes as they are.
type Options struct {
	// RingBytes is the size of each CPU's ring in bytes, rounded up to a power of two of pages. The
	// default, 0, is 256 KiB; 512 KiB is what the kernel grants without privilege
	// (perf_event_mlock_kb). The most is 1 GiB.
	RingBytes int

	// TotalBytes sets RingBytes from a budget for all rings together, rounding down. Set one of the
	// two. Reader.Options has it as 0, and RingBytes as it came out. Rings of CPUs that come online later
	// are as large, and add to it.
	TotalBytes int

	// CPUs are the CPUs to read. The default, nil, is all that are online, at the time of Open or later.
	// Naming none (an empty slice that is not nil) or one that is offline is an error; one that goes offline later is read again when it is back.
	CPUs []int

	// Wakeup says when the kernel wakes a waiting reader.
	Wakeup Wakeup

	// Schedule says which ring is read first by passes over all of them. nil is [FullestFirst].
	Schedule Schedule

	// NoTime does without kernel timestamps. It saves 8 bytes and some 60 ns per event,
	// [Event.Time] is then 0, and [Reader.Ordered] takes a [PayloadTime].
	NoTime bool

	// Outputs has [Stats] tell what became of outputs, and why: those that the kernel refused without
	// counting them too.
	Outputs OutputCounts
}

// Wakeup says when the kernel wakes a waiting reader. Waking it costs the traced workload some
// microseconds each time, on the CPU that outputs.
//
// The zero value is the doorbell, for each CPU on its own: after a while without events (two poll
// times), the first one wakes the reader at once. While events flow, none does: the reader looks every
// poll interval by itself, and is woken early only by a ring a quarter full. Nothing polls while no
// events come. It takes a second perf event per CPU, and map updates as CPUs begin and cease to be
// busy. Where the former cannot be opened, Open falls back to Bytes of a quarter of the ring;
// [Reader.Options] and [Stats].Doorbell say so.
//
// The other policies are plain. Events of 1 wakes on each event, and Wait never looks by itself. With
// Events above 1 or with Bytes, events fewer than that wake nobody, so Wait looks for them every PollInterval:
// no event is stranded, and an idle reader wakes that often.
type Wakeup struct {
	// Events wakes the reader after so many events on a CPU (perf_event_attr.wakeup_events). A Wait that
	// begins later returns at once if a ring may hold that many, judging by its bytes: early, if
	// events are large.
	Events int
	// Bytes wakes it after so many bytes of records on a CPU (perf_event_attr.wakeup_watermark), at
	// most half of the ring. Set one of the two, or none.
	Bytes int
	// PollInterval is the longest that events wait unseen: more exactly, the time between two looks. 0 is 5
	// ms with the doorbell and 10 ms otherwise; the least is 100 µs. Not used when every event wakes. Go's
	// timers are no finer than a millisecond in an idle process.
	PollInterval time.Duration
}

func (w Wakeup) doorbell() bool { return w.Events == 0 && w.Bytes == 0 }

const (
	defaultRingBytes    = 256 << 10
	maxRingBytes        = 1 << 30
	defaultPollInterval = 10 * time.Millisecond
	bellPollInterval    = 5 * time.Millisecond
	leastPollInterval   = 100 * time.Microsecond // below, a deadline may be over before the poller gets it
)

// effective checks the options and fills in all but CPUs, of which there are n. They are copied: what the
// caller does with the slice later is no matter.
func (o Options) effective(n int) (Options, error) {
	o.CPUs = slices.Clone(o.CPUs)
	bad := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf("perfbuf.Options: "+format, args...)
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
		return bad("RingBytes is %d: at most %d (1 GiB) per CPU", o.RingBytes, maxRingBytes)
	case o.TotalBytes/n > maxRingBytes:
		return bad("TotalBytes is %d: at most %d (1 GiB) per CPU, %d in all", o.TotalBytes, maxRingBytes, n*maxRingBytes)
	case o.TotalBytes > 0:
		if o.TotalBytes/n < page {
			return bad("TotalBytes is %d: %d CPUs need at least a page of %d bytes each, %d in all", o.TotalBytes, n, page, n*page)
		}
		o.RingBytes = 1 << (bits.Len(uint(o.TotalBytes/n)) - 1)
	case o.RingBytes == 0:
		o.RingBytes = defaultRingBytes
	}
	o.RingBytes = max(page, 1<<bits.Len(uint(o.RingBytes-1)))
	o.TotalBytes = 0 // has done its work

	w := &o.Wakeup
	switch {
	case w.Events < 0 || w.Bytes < 0 || w.PollInterval < 0:
		return bad("Wakeup is %+v: nothing in it may be negative", *w)
	case w.Events > 0 && w.Bytes > 0:
		return bad("both Wakeup.Events and Wakeup.Bytes are set: set one")
	case int64(w.Events) >= 1<<31:
		return bad("Wakeup.Events is %d: must be below 2^31", w.Events)
	case w.PollInterval > 0 && w.PollInterval < leastPollInterval && w.Events != 1:
		return bad("Wakeup.PollInterval is %v: at least %v, or the reader would do nothing but look; or 0 for the default", w.PollInterval, leastPollInterval)
	case w.Bytes > o.RingBytes/2:
		return bad("Wakeup.Bytes is %d: at most half of the ring's %d bytes, so that there is room while the reader wakes up", w.Bytes, o.RingBytes)
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

// watermark is the bytes of records that wake the reader, 0 if events are counted.
func (o Options) watermark() int {
	if o.Wakeup.doorbell() {
		return o.RingBytes / 4
	}
	return o.Wakeup.Bytes
}

// threshold is how many bytes in one ring are enough not to wait at all. It stands in for a wake-up
// that came while nobody waited, so it must not be more than what causes one.
func (o Options) threshold() uint64 {
	switch {
	case o.watermark() > 0:
		return uint64(o.watermark())
	case o.Wakeup.Events > 1:
		// Events cannot be counted without reading them. So many of the smallest may be fewer of larger
		// ones.
		smallest := 24 // header, time, raw_size and four bytes
		if o.NoTime {
			smallest = 16
		}
		return uint64(min(o.Wakeup.Events*smallest, o.RingBytes/2))
	default:
		return 1
	}
}

// pick returns the CPUs to read, in order, given those online.
func (o Options) pick(online []int) ([]int, error) {
	cpus := online
	if o.CPUs != nil {
		if len(o.CPUs) == 0 {
			return nil, errors.New("perfbuf.Options: CPUs is empty: use nil for all that are online, or name those to read")
		}
		cpus = slices.Clone(o.CPUs)
		slices.Sort(cpus)
		for i, c := range cpus {
			if !slices.Contains(online, c) {
				return nil, fmt.Errorf("perfbuf.Options: CPU %d is not online: online are %v", c, online)
			}
			if i > 0 && cpus[i-1] == c {
				return nil, fmt.Errorf("perfbuf.Options: CPU %d is named twice", c)
			}
		}
	}
	return cpus, nil
}
