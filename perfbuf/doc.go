// Package perfbuf reads BPF perf event arrays (BPF_MAP_TYPE_PERF_EVENT_ARRAY): one ring of memory
// per CPU, written by the kernel with bpf_perf_event_output, and shared with this process.
//
// libbpf's perf_buffer sets the rings up. Everything after that is Go: events are read where they
// lie, without a C call, copy, allocation or channel per event. Programs must be 64-bit: [Open] refuses others.
//
//	r, err := perfbuf.Open(mapFD, perfbuf.Options{})
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	stream, err := r.Ordered(perfbuf.OrderOptions{})
//	if err != nil {
//		return err
//	}
//	for ev, err := range stream.Events(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(ev.Time(), ev.CPU(), ev.Kind(), ev.Bytes())
//	}
//
// # Ways to read
//
// A pass reads what is there now and does not wait: [Fold], [Fold], [Ring.ForEach],
// [Reader.ForEach], [Ordered.ForEach], [Ring.Events]. What takes a context waits for more:
// [Reader.Run], [Reader.Events], [Reader.Records] and those of [Ordered]. [Reader.Wait] lets a
// program put the two together its own way. [Reader.ForEachBatch] and [Reader.RunBatches] hand over
// many events with one call, for functions that do little with each.
//
// A [Reader] and a [Ring] deliver ring by ring; an [Ordered] stream delivers all CPUs' events in
// the order of their times. Package perfchan copies events into Go channels, for programs written for
// libbpfgo's call of that name.
//
// # Waking up
//
// Waking a reader costs the program that outputs some microseconds, more than all else. By default only
// the first event after a pause does; while events flow, the reader looks at the rings by itself, every
// 5 ms. See [Wakeup] for that and for other ways, and [Schedule] for which ring is read first.
//
// # Control
//
// [Reader.Flush] asks the running reader for all that there is, and for a marker behind it.
// [Reader.Pause] stops outputs, [Reader.Resume] lets them go on, and [Reader.Shutdown] stops them,
// delivers the rest and closes. All may be called from anywhere at any time.
//
// # What comes out
//
// An [Event] is a sample, a loss, a stretch of memory that was corrupt, or the answer to a Flush; see
// [Event.Kind]. It is valid until the function that got it returns, since the kernel then overwrites
// it. [Event.Record] copies it, [Decoder] reads it as a struct.
//
// # Order
//
// An [Ordered] stream is exact by default ([Exact]): it delivers an event once a barrier, an RCU
// grace period, has proved that no older one is still to come. [Slack] guesses instead, with less
// delay. At the end, detach the programs and call [Ordered.Drain]: the stream then ends complete.
//
// # Losses
//
// When a ring is full, outputs fail (-ENOSPC in the BPF program) and the kernel counts them. It
// reports the count with the next output that succeeds: as an event of KindLost just before that
// one. If nothing follows, Linux 6.0 and newer can be asked: an Ordered stream does so when a CPU
// falls silent after its ring was nearly full, and in Drain and ForEachPending. After [Reader.Close], [Stats]
// has final counts: Samples + Dropped + Lost of a ring is what programs tried to output there.
//
// A stream that holds events back while they come in fast copies the oldest ones out of rings that
// fill up ([Spill]). Rings need room only for what comes between two looks, which are 2 ms apart at
// most while a stream waits with events in hand.
//
// Outputs that find no ring at all are not counted by the kernel: those before [Open], after Close, and
// while the Reader is paused. [Options].Outputs has programs count them themselves.
//
// # CPUs that come and go
//
// A CPU that comes online after Open gets a ring, and one that was offline gets its ring back, as soon as
// the kernel tells of it (uevents; without them, the list of CPUs is read twice a second), in whatever way
// the rings are read. What programs output on it before that is refused, and not counted: see above.
// [HotplugStats] tells. What a CPU has output before it goes stays in its ring and is delivered.
//
// # Several goroutines
//
// Rings are independent: each may be read by a goroutine of its own.
//
//	for _, ring := range r.Rings() {
//		go ring.Run(ctx, handle)
//	}
//
// # One reader per map
//
// The map holds one perf event per CPU. A second reader that opens the same map takes the place of the
// first, of whatever library and process that is: it hears of it in [Stats].ReplacedEntries, and the first one
// goes silent without a word, as nothing in the kernel tells it. Whichever closes, pauses or wakes up takes
// the other's events out of the map, but for one that is paused and closes. Programs for two readers output to two maps.
//
// A process that is killed leaves nothing behind, and outputs fail with ENOENT then. Only if it had got the map's
// descriptor from another process that lives on (over a socket, by a fork) its entries stay in the map, without rings: outputs
// fail with ENOSPC until the next reader, which replaces them, or until that process is gone too.
package perfbuf
