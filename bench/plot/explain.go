package main

type explanation struct{ title, body string }

// explanations say what is measured, by benchmark.
var explanations = map[string]explanation{
	"drain": {"Reading full rings", `A BPF program fills the rings, and a thread on one CPU then reads them at once. Only reading is
timed, with the cost of a drain beyond its events, which shows in rings that hold few. *56B/64KiB*
is payloads of 56 bytes in rings of 64 KiB. Each reader has its own map, program and rings of the
same size, and reads the first word of each event.

- *ringfold* loops over batches (` + "`ForEachBatch`" + `); *ringfold-foreach* calls its function for each
  event. Such a call costs up to 15 ns where the processor's mitigations keep it from predicting
  calls through pointers, and less than the noise on other machines.
- *libbpf-c* calls a callback in C, and *c-loop* is a plain loop in C over the mapped rings. Neither
  returns to Go for an event.
- *cilium* is ` + "`ReadInto`" + ` with one reused record; *cilium-watermark* is the same, woken less often.
- *libbpfgo* sends each event through a buffered channel, which is kinder than an unbuffered one.
  *ringfold-channels* is ` + "`perfchan.InitPerfBuf`" + `, ringfold's drop-in for it, with the same copies and
  channel; here without order, which is not its default: see [one changed line](#one-changed-line).
- *aya* is ` + "`read_events`" + ` with ten buffers of 1 KiB, as in its documentation, in Rust: it copies each
  event, and does not return to Go either.
- *cilium-ringbuf* reads another kind of map, a BPF ring buffer with as many bytes in all.

*mixed* is payloads of 40 to 360 bytes, as events of real programs differ in length. ringfold then
asks for memory ahead of the record it reads, without which it took 1.7 times as long. Where records
are alike, it checks that they are, and no longer waits for one to find the next.

ringfold checks every header, and its records have the kernel's timestamp: 8 bytes more than those
of the others.`},

	"ringbuf": {"Reading BPF ring buffers", `As above, with one BPF ring buffer that programs on all CPUs have written to; 64 KiB and 4 MiB are
its size.

- *ringfold* loops over batches, *ringfold-foreach* calls its function for each event, and
  *ringfold-ordered* is a stream with ` + "`Slack(0)`" + `, by a time in the payload.
- *libbpf-c* is ` + "`ring_buffer__consume`" + ` with a callback in C, *c-loop* a plain loop in C with one
  store of consumer_pos.
- *aya* is its ` + "`RingBuf::next`" + `, in Rust, which copies nothing.
- *cilium-ringbuf* is cilium/ebpf's ` + "`ringbuf.Reader.ReadInto`" + `, and *cilium-ringbuf-read* its ` + "`Read`" + `,
  which allocates; both copy each event.

The goals were the time of libbpf in C, and half of that of ` + "`ReadInto`" + `. All sizes miss the first,
because ringfold checks each header and keeps account of each event; with 64 KiB and 8192 bytes there
are only six events, and a drain costs 0.4 µs more beyond them. Payloads of 256
bytes miss the second. Before ringfold found events in lists of 64, 256 bytes took 0.7 to
0.9 of the time, in proportion to libbpf's; perf rings gained by these lists.`},

	"producer": {"What an output costs the traced program", `The time of an output in the BPF program, including a read of the clock and the interrupts that wake
the reader, while events flow and the reader keeps up. Rings have 4 MiB, and no output is refused.
Where the reader is rarely woken, that is 60 to 120 ns, of which ringfold's kernel timestamp takes
some 30. The rest is the price of waking the reader.

- libbpf, cilium/ebpf, libbpfgo and aya wake it for each event, unless told to wait for more bytes.
  *cilium-watermark* is cilium/ebpf with half a ring, at which an event may wait forever.
- *ringfold-channels* wakes as *ringfold* does, but polls every millisecond while events flow,
  instead of every 5.
- ringfold's variants are ` + "`Options.Wakeup`" + ` with one event, 64 events, or half a ring.`},

	"producers": {"Many producers", `What an output of 56 bytes takes the program while those on other CPUs output, too: bursts that find
room, and wake nobody. A ring buffer that all CPUs share has one lock, for which they wait. Perf event
arrays have a ring per CPU, as have the ring buffers in a map of maps.`},

	"first-event": {"Delay of a first event", `Nothing has happened for at least 100 ms; a program outputs one event, and a waiting reader gets it.
The delay is the time from the program's read of the clock to one in the user's function: p50, the
mean of each CPU's, and p99 of 200. The readers come in random order, and all of the process sleeps
before each event.
libbpfgo parks a goroutine; the others block a thread in epoll_wait. aya leaves waiting to its user:
a loop in Rust waits here as libbpf does.

Where the delay comes from, by reads of the clock on the way (medians of 144 and 160 on two CPUs; in
that run the total was 84 µs with ringfold and 83 with cilium/ebpf):

| step | ringfold | cilium/ebpf |
|---|--:|--:|
| from the program's read of the clock until epoll_wait is back in Go | 76 | 76 |
| until the function is called | 6.7 | 6.6 |

After a pause all that lies between the two is cold. Traced instruction by instruction, that was 92
cache lines of ringfold's code and 60 of its data, and is 72 and 48; with cilium/ebpf it is 71 and
36. Go's own way back from a system call takes some 50 and 40 more with both. This shortened it, old
and new code in turns:

- After 50 ms without an event, a wait is a system call on the perf events' own epoll descriptor,
  without Go's poller and a second epoll descriptor: 5 µs less. It takes 0.3 ms of CPU time per wait,
  where Go's poller takes 0.1. More frequent waits stay in Go's poller: at 30 to 300 events a second a
  system call takes twice the CPU time, as Go's sysmon then polls while a thread blocks. Nor is it one
  at once: goroutines that the latest events were sent to would wait for another thread.
- The pass reads the ring that has something before it plans which to read, and begins without giving
  the stream back after the wait: 4 µs less together.
- Such a wait returns with the first wakeup, past all that lets a wait go on, and fields of structs
  stand in the order of their use: 2.6 µs less.
- A stream's state lies in one piece, so that its data lies on 13 pages and not on 17, and fewer
  functions return on the way: 1.5 µs less. Where data lies in a row of pointers, the pass asks for
  all rings' cache lines at once, and does not wait for one after the other: 0.8 µs less, on two CPUs.
- Not kept: ppoll(2) on the perf events themselves (no difference in 400 events); asking for all cold
  lines of code and data at once, by loads or by prefetches (1 µs less at most).

Before all that, the median was 1.31 and 1.22 times that of cilium/ebpf (400 and 200 events). Now it is
level: 0.85, 0.97 and 0.86 times in three runs on the machine of these figures, and 1.13, 1.18 and 0.94
on another. A single run decides nothing, least of all at p99: 0.59, 0.97 and 1.08 times, and 1.1, 6.3
and 0.3.

All readers wake for the first event; cilium/ebpf with a watermark is left out, because it would
wait forever.`},

	"delay": {"Delay and order while events flow", `Another process outputs on all CPUs, in bursts each millisecond. The delay is the time from the
program's read of the clock to one in the user's function.

- *Ordered* readers are ringfold's streams: *ringfold* is the default, exact order, with the barrier
  that it chooses. Variants are named by their barrier (` + "`Reader.Stats().Barrier.Provider`" + `), or
  by the time they wait: ` + "`Slack(time.Millisecond)`" + `, and 100 ms, which Tracee waits.
- *Unordered* readers deliver events as they find them. *ringfold* polls every few milliseconds
  while events flow, others at the ` + "`Wakeup.PollInterval`" + ` in their names. *ringfold-every-event*
  (` + "`Options.Wakeup.Events`" + ` is 1) wakes for each event, as cilium/ebpf's and libbpf's readers do.
  That makes their delay, and the traced program pays for it: see the cost of an output.

CPU time is that of the reader's process, including a read of the clock per event. *Late* is the
share of events that came after one with a later time, in the worst of three rounds: by the kernel's
times for streams, by the program's for the others.`},

	"harm": {"What barriers cost others", `Exact order waits for grace periods. Some barriers interrupt every busy CPU (expedited grace
periods), others do not. Here one CPU makes barriers all the time, at the default interval or
without one. A stream makes fewer: none while it holds no events.

Another CPU belongs to a program that reads the clock in a loop. *Throughput* is how often, relative
to no barriers, not counting pauses of 1 ms and more, in which other programs ran. The longest gap
is the longest pause in 0.4 s, the median of 7 runs. Interrupts are the kernel's function-call
interrupts (/proc/interrupts) on that CPU. The program then mounts and unmounts a tmpfs, which takes
the same locks.

A virtual machine pays more for an interrupt than a real one, and its longest gaps are mostly the
host's. For isolated or nohz_full CPUs:
` + "`make test-vm TESTS=harm APPEND='isolcpus=3 nohz_full=3 rcu_nocbs=3'`" + `.`},

	"cpu": {"CPU time of the reader", `Another process outputs at a steady rate. The figure is all CPU time of the reader's process, user
and system, including the Go runtime, in seconds per million events. *idle* is a reader that waits
for events and gets none. The kernel charges the interrupts that wake the reader to the task that
they interrupt: see the cost for the traced program.`},

	"overload": {"More events than can be read", `Another process outputs as fast as it can on all CPUs, and competes with the reader for them; rings
have 256 KiB. *delivered* and *lost* are shares of the attempted outputs. A reader that wakes less
often leaves programs more time to output, so it may lose more *of more*. *cpu* is how much CPU time
the scheduler gives the reader. ringfold's events are 8 bytes larger, for the time.`},

	"lanes": {"Lanes under overload", `First what an output of 56 bytes costs the program that makes it, if nothing is shed:
` + "`perfbuf_output`" + ` in one of two lanes, beside the plain helper. Then, for 3 s, programs on all CPUs output
ten times what a reader can handle that is busy for 5 µs with each event; one event of 257 is
important. *Lost* is the share of the important ones that did not get into a ring of 256 KiB: in the
median of ten runs, and in the worst. *ringfold-lanes* gives the others half of each ring; the other
readers have no lanes. Those that wake for each event slow the programs down by that.`},

	"drop-in": {"One changed line", `libbpfgo and cilium/ebpf, and ringfold's drop-ins for them: *ringfold-channels* is
` + "`perfchan.InitPerfBuf`" + `, *ringfold-perf* is ` + "`dropin/perf`" + `. They deliver in exact order, so an event waits
for the proof that no older one can come. Rings have 64 KiB, payloads 56 bytes; delay and CPU time
are as above. *Overtaken* is the share of events that came after one with a later time, by the
programs' own times. These are some hundred nanoseconds older than the kernel's, and more if the
program was interrupted in between: that is all that is left with the drop-ins.

Bursts are 90 or 150 % of a ring, on all CPUs at once, every 10 ms; a busy user takes 5 µs for each
event. Of the larger ones, readers that are woken for each event lose less, because that slows the
programs down, and a burst takes ten times as long.`},

	"ordered": {"One stream in the order of time", `Rings are filled, and then all events are read in order of time. Events interleave perfectly, or
come in runs of 32 per CPU. (The two real CPUs take turns; simulated ones are chosen at random, with
runs of 32 on average.) Payloads have 56 bytes, rings 64 KiB; only reading is timed.

- *ringfold* is a ` + "`Stream`" + ` with ` + "`Slack(0)`" + `: all events are due. *ringfold-unordered*
  delivers equal rings without order: the difference is the price of order.
- *cilium-heap* is what people write: ` + "`ReadInto`" + `, then container/heap by a time at the payload's
  start. It reuses records and so allocates nothing, which most programs do not manage.
- *collect-sort* copies all events into one slice, by ringfold's reader without order, and sorts an
  index with ` + "`slices.SortFunc`" + `.

Rings of more CPUs than the machine has lie in the process's own memory, written by the kernel's
rules. cilium/ebpf's reader cannot read those, so a copy of its loop stands in, without the system
call per drain.`},

	"sources": {"One stream of several sources", `The price of order over one reader, and over four that have the same number of rings in all (with
two rings, over two). Rings are simulated, as above; events interleave, payloads have 56 bytes,
rings and ring buffers 64 KiB. *ringfold-unordered* reads one reader's rings one after the other.

Then the delay of a first event after a pause of at least 100 ms, from the program's read of the
clock to one in the user's function. *ringfold* reads without order, and *ringfold-ordered* is a
stream with ` + "`Slack(0)`" + ` over that reader. *ringfold-2-sources* is one over it and an idle ring
buffer, which it waits for by an epoll of two epolls. *libbpf-c* is ` + "`perf_buffer__poll`" + ` or
` + "`ring_buffer__poll`" + `. Exact order adds a barrier to streams: see the delay while events flow.`},

	"skew": {"One hot ring among others", `One CPU outputs much more than the others. The consumer, which takes a fixed time for each event, is
barely fast enough, or too slow. The share of lost outputs may depend on the order in which the
reader visits rings: *ringfold* is the default.

- On the real kernel there are two rings, one with ten times the other's rate. The programs compete
  with the consumer for the CPUs, so figures vary by half from run to run.
- The 64 rings are a simulation, in virtual time, under a real ` + "`Reader`" + `. Half of all outputs (or a
  tenth, where it says so) go to one ring, at random times; a load of 1 is what the consumer can do.
  With *pauses* it also does something else now and then, a tenth of the time at most, for up to 1.2
  times as long as the hot ring takes to fill.

Above a load of 1 no order can save everything: at 1.2 a sixth is lost in any order. A variant of
ringfold that does better than the default is listed as such.`},

	"memory": {"Memory", `What a reader takes that is open and has been used, rings included: anonymous memory of the process,
and the kernel's pages for rings of 64 KiB. The figures for 128 rings are computed from those for
one. *allocs/event* is how often a reader in Go allocates per event while it drains.`},
}

// unitTitles are what units are called, where it is not clear what they are units of.
var unitTitles = map[string]string{
	"drain ns":       "ns per event",
	"ringbuf ns":     "ns per event",
	"producer ns":    "ns per output",
	"first-event us": "µs",
	"cpu s/Mevent":   "CPU seconds per million events",

	"delay us ordered":         "delay in order, µs",
	"delay us unordered":       "delay without order, µs",
	"delay s/Mevent ordered":   "CPU seconds per million events, in order",
	"delay s/Mevent unordered": "CPU seconds per million events, without order",
	"delay share ordered":      "share of events late, in order",
	"delay share unordered":    "share of events late, without order",

	"harm throughput":      "throughput of a busy loop, relative to no barriers",
	"harm us longest gap":  "longest gap in a busy loop, µs",
	"harm interrupts/s":    "function-call interrupts per second of a busy CPU",
	"harm us mount+umount": "mount and umount, µs",
	"harm /s":              "barriers per second",
	"cpu /s":               "outputs per second",
	"cpu ms/s":             "ms of CPU time per second",
	"cpu share":            "share of outputs",
	"overload share":       "share of outputs",
	"overload s/s":         "CPU seconds per second",
	"ordered ns/event":     "ns per event",
	"sources ns/event":     "ns per event",
	"sources us":           "delay of a first event, µs",
	"skew share":           "share of outputs lost",
	"memory ":              "per event",
}

func unitTitle(bench, unit string) string {
	if title, ok := unitTitles[bench+" "+unit]; ok {
		return title
	}
	return unit
}
