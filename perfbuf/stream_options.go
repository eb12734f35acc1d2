package perfbuf

import (
	"fmt"
	"time"
)

// Order is the order of a stream's events. Its zero value is exact: an event is delivered once no
// older one can still come from any CPU, which the stream proves.
//
// The proof: the kernel takes an event's time and publishes the event within one RCU read-side
// critical section (perf_event_output). The stream reads the clock, waits for an RCU grace period
// (a barrier), and then loads all heads. Every event older than that reading is below those heads:
// the barrier has waited for an output that was running, and one that began later took its time
// later. Where the kernel allows it, a barrier sees by itself that no output is running, without a
// grace period: see [NestLevels].
//
// The proof holds however long a CPU was interrupted, or paused by its hypervisor. Clocks of
// different CPUs may disagree by up to 10 us. For times that programs take themselves, see
// [PayloadTime].
//
// Delivery lags by one to two grace periods: see [StreamOptions].BarrierInterval for figures. An
// idle system costs nothing: there are barriers only while events are held. If barriers fail, Wait
// returns [ErrBarriers]. If one hangs, [BarrierStats].Stalled grows. Meanwhile the stream delivers
// nothing.
type Order struct {
	mode  mode
	slack time.Duration
}

type mode uint8

const (
	exactOrder mode = iota
	slackOrder
	noOrder
)

// Slack is the usual heuristic: it holds each event back until d after its time, so that older
// events on other CPUs can come first. No fixed wait is safe: a hypervisor may stop a CPU for 100
// ms between taking an event's time and publishing it. An event that comes too late is delivered at
// once, marked [Event.Late], or dropped and counted with StreamOptions.DropLate. Delivery lags by d
// to 1.5 d, more with a poll interval ([Wakeup]) or while a pass takes long. Slack needs no
// barriers.
func Slack(d time.Duration) Order { return Order{mode: slackOrder, slack: d} }

// Unordered delivers events as they lie in their rings, without regard to the order between CPUs,
// the fullest ring first (see [Schedule]), and several readers one after the other. It is the
// fastest way to read, and delays nothing. It needs no times. There is no [Stream.Watermark], and
// no FlushEvery.
func Unordered() Order { return Order{mode: noOrder} }

func (o Order) String() string {
	switch o.mode {
	case slackOrder:
		return fmt.Sprintf("slack %v", o.slack)
	case noOrder:
		return "unordered"
	default:
		return "exact"
	}
}

// Spill bounds the copies of events out of rings that fill up before their events are due. The
// stream copies the oldest bytes and gives their room back to the kernel. This changes neither the
// events nor their order. The room behind a record of a BPF ring buffer that is reserved and not
// submitted cannot be given back (__bpf_ringbuf_reserve, kernel/bpf/ringbuf.c). The zero value is
// good.
type Spill struct {
	// Bytes is the budget for copies of all rings together, allocated on demand in blocks of 64 KiB
	// to 1 MiB, and reused. 0 is 16 MiB, or the size of all rings if that is more; below 0 is no
	// budget. Once it is used up, rings fill, and the kernel drops and counts events. A stream also
	// keeps 16 bytes for each record that it holds.
	Bytes int
	// Above is how full a ring must be, in percent, for its oldest bytes to be copied; 0 is 50.
	// Until is how full it is after that; 0 is half of Above.
	Above, Until int
}

// StreamOptions configures a stream. The zero value is good: exact order. Unordered streams use
// Order, Barriers and MaxDelay alone.
type StreamOptions struct {
	Order Order

	// BarrierInterval is the least time from the start of one barrier to the start of the next, in
	// exact mode. A longer one costs less CPU time and delivers later: an event waits for the next
	// barrier to start, and then for its grace period. 0 is 1 ms; below 0 is none. It is an
	// average: after a pause, barriers may follow each other at once, as many as would have fit
	// into 16 ms of the pause.
	//
	// It also bounds the harm to others, which depends on the way to wait: see [Barriers].
	// BindMount, and from Linux 6.19 on MapInMap, interrupt every CPU that is busy, once per
	// barrier. At 1,000 barriers a second, a busy loop took 2 % longer, on a virtual machine with
	// 2 CPUs (100 a second: 0.3 %, 5,000: 11 %). The others interrupt no CPU.
	//
	// Measured delays, p50 / p99, on Linux 6.18 with 2 CPUs: BindMount with 1 ms 0.56 / 1.3 ms at
	// 100,000 events a second; before Wait made barriers itself, at 160,000: without interval
	// 0.3 / 1.8 ms, MapInMap with 1 ms 12 / 21 ms, and rare events with BindMount 0.1 / 0.2 ms.
	BarrierInterval time.Duration

	// Barriers are the ways in which barriers may wait, also in Drain, Shutdown and Close. 0 allows
	// all. The stream takes the best that works here (see [Barriers]); BarrierStats says which, and
	// why not another.
	Barriers Barriers

	// DropLate drops samples that come too late, instead of delivering them marked as Late.
	// Stats.Late and RingStats.Dropped count them. Losses and corrupt memory are never dropped.
	DropLate bool

	// FlushEvery makes the stream flush itself, as [Stream.Flush] does. While you wait on the
	// stream or make passes, it delivers an event of [KindFlushed] this often, whether events flow
	// or not. The marker's Time is [Stream.Watermark]: everything up to it has been delivered. The
	// next one is due this long after that time, and comes with the first pass that reaches it. 0
	// is never; the least is 1 ms, in exact mode BarrierInterval if that is longer.
	//
	// It costs next to nothing while events flow. On an idle system it costs one wakeup of the
	// process per interval, in exact mode two and a barrier. While barriers fail, Wait then returns
	// [ErrBarriers].
	FlushEvery time.Duration

	// MaxDelay makes the stream keep the delay of its events below this, from their output to the
	// end of the pass that delivers them, by [Reader.Shed]: a lane more each 100 ms while they come
	// later, but never a map's last lane; a lane less when no pass of the last 100 ms was later
	// than half of it. It is for users who cannot keep up, as the lanes' shares of the rings are
	// for bursts. 0 is no limit. It needs a reader with Options.LanesFD.
	MaxDelay time.Duration

	Spill Spill
}

const (
	defaultBarrierInterval = time.Millisecond
	leastFlushEvery        = time.Millisecond
	leastSpill             = 16 << 20
)
