// Package perfbuf reads BPF perf event arrays (BPF_MAP_TYPE_PERF_EVENT_ARRAY), the per-CPU buffers
// that bpf_perf_event_output writes to, and BPF ring buffers (BPF_MAP_TYPE_RINGBUF).
//
// It delivers events in their true order across CPUs, and reports exactly what was lost. It reads
// events in place, without a copy, allocation, C call or channel per event. [Open] takes a map's
// file descriptor, whether libbpfgo, cilium/ebpf or anything else loaded the map. It sets up one
// ring per CPU with libbpf's perf_buffer, so it needs cgo; programs must be 64-bit.
//
// [OpenRingBuf] does the same for a BPF ring buffer, or for several in a map of maps. [Merge] makes
// one ordered stream of several readers of either kind.
//
// This reads all CPUs in order of time:
//
//	reader, err := perfbuf.Open(mapFD, perfbuf.Options{})
//	if err != nil {
//		return err
//	}
//	defer reader.Close()
//	stream, err := reader.Stream(perfbuf.StreamOptions{})
//	if err != nil {
//		return err
//	}
//	// Attach programs here: before Open, their outputs fail.
//	for ev, err := range stream.Events(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(ev.Time(), ev.CPU(), ev.Kind(), ev.Bytes())
//	}
//
// Package perfbuftest simulates a kernel, to test consumers without root or BPF. Package perfchan
// is a drop-in for libbpfgo's InitPerfBuf: replace one line and keep your channels. Package
// perfdata records and replays events, and package flight keeps the newest ones until you ask.
//
// # Choose how to read
//
// You read events from a [Stream]:
//
//   - [Reader.Stream] is all CPUs in order of time. With [Unordered] it goes ring by ring, the
//     fullest ring first, and delays nothing.
//   - [Merge] makes one stream of several readers.
//   - [Ring.Stream] is one of [Reader.Rings], for a goroutine of its own.
//
// A Stream offers these ways of reading:
//
//   - [Stream.Records] is the simplest: each [Record] is a copy that you may keep.
//   - [Stream.Run] and [Stream.Events] hand out events in place.
//   - [Stream.RunBatches] is the fastest: one call for many events. It also shows where a pass
//     ends.
//   - [Stream.ForEach], [Stream.ForEachBatch] and [Fold] read the events that are due now, without
//     waiting.
//   - [Stream.Wait] waits without reading, for loops of your own.
//
// Methods that take a context block until events come. They park the goroutine; while events are
// frequent, they block its thread instead, which halves the CPU time of a wait. They return
// context.Cause(ctx), [os.ErrClosed] after [Reader.Close] or [Stream.Close], or the error of your
// function; an iterator yields that error last. Your function ends a loop without an error by
// returning [ErrStop]. A stream holds its rings until it is closed: another one over them
// returns [ErrBusy].
//
// # Events
//
// An [Event] is a sample, a loss, corrupt ring memory or the marker after a Flush: [Event.Kind]
// says which. It is valid until your function returns or the loop body ends; then the kernel
// overwrites it. [Event.Record] copies it, and a [Decoder] reads its payload as a struct. The build
// tag perfbuf_poison catches use after return by overwriting expired events with 0xCC.
//
// # Order
//
// Per-CPU buffers have no order between them, and interrupts can invert the order within one. A
// [Stream] restores it by the kernel's timestamps. By default it is exact (see [Order]): it
// delivers an event once a barrier has proved that no older event can still come, on any CPU. A
// barrier waits until all BPF programs that were running have ended. This costs delay, p50 / p99 on
// Linux 6.18 as root: 0.1 / 0.2 ms for rare events, and 0.7 / 1.7 ms at 160,000 a second; 12 / 21
// ms if no fast barrier works (see [Barriers]).
//
// [Slack] is the usual heuristic: wait a fixed time. With 1 ms its delays are 1.1 / 1.2 ms and 1.4
// / 2.3 ms. An event that comes too late is delivered out of order, marked [Event.Late].
//
// Events wait in their rings. When a ring fills up meanwhile, the stream copies the oldest events
// out of it, within a memory budget: see [Spill]. A ring thus needs room only for what arrives
// between two looks, at most 2 ms apart while the stream holds events.
//
// A stream may have several sources, each a Reader with options, statistics and losses of its own:
// see [Merge]. [Event.Source] says which one an event is from, and [Stream.Add] and
// [Stream.Remove] change them while the stream runs. Events of BPF ring buffers have their times
// in the payload: see [OpenRingBuf].
//
// # Losses
//
// When a ring is full, outputs fail with -ENOSPC and the kernel counts them. The next output that
// succeeds reports the count, which arrives as an event of [KindLost] just before it. If no output
// follows, the reader can ask Linux 6.0 and newer. A stream in order does so when a CPU falls
// silent after its ring was nearly full, and in [Stream.Drain] and [Stream.ForEachPending].
//
// [Reader.Stats] has totals. After Close, Samples + Dropped + Lost of a ring is the number of
// outputs that programs tried; [RingStats] lists the conditions under which that is exact. The
// kernel does not count outputs that find no ring: before Open, after Close, and while the Reader
// is paused, nor losses of BPF ring buffers. With [Options].LanesFD, programs count those
// themselves.
//
// # Stop without losing events
//
// On Ctrl-C, cancel the context, and call [Stream.Shutdown] when your loop has returned. It stops
// outputs, delivers the events in the rings, and closes the reader. If you detach the programs
// first, [Stream.Drain] delivers the rest. [Reader.Close] alone drops it.
//
// [Reader.Pause] and [Reader.Resume] stop and restart outputs. [Stream.Flush] asks for everything
// that the rings hold now, followed by an event of [KindFlushed]. [Stream.Watermark] is the time
// up to which a stream is complete, and [StreamOptions].FlushEvery sends it regularly. You may call
// Flush, Pause, Resume, Stats and Close from any goroutine at any time; they do not wait for reads.
//
// # Wakeups
//
// Waking the reader costs the traced program microseconds, far more than the output itself. By
// default each rare event wakes it at once. Above 1,000 events a second on a CPU, the reader polls
// every 5 ms, and a ring a quarter full wakes it early. [Wakeup] has other policies, and [Schedule]
// chooses which ring is read first.
//
// # CPU hotplug
//
// A CPU that comes online after Open gets a ring, and one that returns gets its ring back. The
// reader learns of it from uevents or, without them, by reading the list of CPUs twice a second.
// Outputs on that CPU fail until then, and the kernel does not count them. Events that a CPU output
// before it went offline are still delivered. [HotplugStats] counts the changes.
//
// # One reader per map
//
// A perf event array holds one perf event per CPU. A second reader of the same map, in any process
// and with any library, replaces the first, which receives nothing from then on, and nothing wakes
// it. The second sees it in [Stats].ReplacedEntries. From Linux 5.10 on, the first looks every 2
// seconds whether its entries are still there: reading then returns [ErrDisplaced], once, after all
// that the rings held, and [Stats].Displaced says since when events may be missing. A Reader leaves
// a newer reader's entries alone, also when it closes; only [Reader.Resume] takes the map back.
// Other libraries may remove a newer reader's entries: libbpf does, when it closes. For two
// readers, have programs output to two maps. Two readers of a BPF ring buffer share its events, and
// each misses the other's; [RingStats].Shared counts how often a reader noticed. [Merge] refuses
// both in one stream.
//
// The kernel cleans up after a process that is killed: outputs then fail with -ENOENT. There is one
// exception. If a process that still runs passed it the map's descriptor, over a socket or by a
// fork, the entries stay in the map without rings. Outputs then fail with -ENOSPC, until that
// process ends or the next reader replaces the entries.
package perfbuf
