package main

type explanation struct{ title, body string }

// explanations say what is measured, by benchmark.
var explanations = map[string]explanation{
	"drain": {"Reading full rings", `Rings are filled by a BPF program and then read at once, by a thread on one CPU. Only reading is timed, with what a drain costs
beside its events: that shows where rings hold few. *56B/64KiB* is payloads of 56 bytes in rings of 64 KiB. Each reader has a map, a program and rings of its own,
of the same size, and reads the first word of each event. *ringfold* loops over batches (` + "`ForEachBatch`" + `), *ringfold-foreach* has its function called for each event, which
takes 3 to 15 ns here, as the processor has mitigations on or off that keep it from predicting calls through pointers. *libbpf-c* calls a callback in C, *c-loop* is a plain loop in C over the mapped
rings: neither comes back to Go for an event. *cilium* is ` + "`ReadInto`" + ` with one record that is used again; *cilium-watermark* is the same, woken less often.
*libbpfgo* sends each event through a channel, a buffered one, which is kinder than one without; *ringfold-channels* is ringfold's replacement for it, ` + "`InitPerfBuf`" + `, with the
same copies and channel. *aya* is ` + "`read_events`" + ` with ten buffers of 1 KiB, as in its documentation, in Rust: it copies each event, and does not come back to Go for one either. *cilium-ringbuf* reads another kind of map, a BPF ring buffer of as many bytes
in all. ringfold checks every header before it believes it, and its records have the kernel's timestamp, 8 bytes more than those of the others.
It reads ahead, which neither loop in C does: in a trial, the plain one took 0.7 to 0.8 of its time with a prefetch.`},

	"ringbuf": {"Reading BPF ring buffers", `As above, of one BPF ring buffer to which programs on all CPUs have output: 64 KiB and 4 MiB are the size of all of it. *ringfold* loops over
batches, *ringfold-foreach* has its function called for each event, and *ringfold-ordered* is a stream with ` + "`Slack(0)`" + `, by a time in the payload. *libbpf-c* is ` + "`ring_buffer__consume`" + ` with a callback in
C, *c-loop* a plain loop in C with one store of consumer_pos. *aya* is its ` + "`RingBuf::next`" + `, in Rust, which copies nothing. *cilium-ringbuf* is cilium/ebpf's ` + "`ringbuf.Reader.ReadInto`" + `, *cilium-ringbuf-read* its ` + "`Read`" + `, which allocates; both copy each event.
The goals were the time of libbpf in C, and half of that of ` + "`ReadInto`" + `. Of 64 KiB, 8192 bytes miss the first: there are six events, and a drain takes 0.4 µs more
beside them. So do 16 bytes, which are all in the cache, as each header is checked. Of 4 MiB, 256 bytes miss the second.
In trials, reading ahead took 0.6 to 0.9 of the time of not doing so from 256 bytes on, but for the six events (small events are not read ahead), and a list of 64 events that is found first and then handed out, instead of one loop, 1.1 to 1.9 times as long.`},

	"producer": {"What an output costs the traced program", `The time of an output in the BPF program, a read of the clock and the interrupts that wake the reader included, while events flow and
the reader keeps up: rings have 4 MiB, and no output is refused. Some 200 ns of it are the output itself, with the kernel's timestamp in ringfold's case (50 to 70 ns), and the rest
is the price of waking the reader. libbpf, cilium/ebpf, libbpfgo and aya wake it for each event,
unless they are told to wait for more bytes: *cilium-watermark* is cilium/ebpf with half a ring, at which an event may wait forever. *ringfold-channels* is woken as *ringfold* is, but looks every
millisecond while events flow, instead of every 5. ringfold's variants
are ` + "`Options.Wakeup`" + ` with one event, 64 events, or half a ring.`},

	"first-event": {"Delay of a first event", `Nothing has happened for at least 100 ms; a program outputs one event, and a waiting reader gets it. The delay is the time from the program's read of the clock
to one in the user's function: the median of 100, and what 99 of them stay below. ringfold and libbpfgo park a goroutine; libbpf,
cilium/ebpf and *aya* block a thread in epoll_wait. aya leaves waiting to its user: a loop in Rust waits here as libbpf does.

Where ringfold's delay comes from, followed by tracing (medians, which the tracing makes a quarter longer; the output on one CPU, the reader asleep on the other):

| from the program's read of the clock until | µs |
|---|--:|
| the interrupt that wakes readers (irq_work) | 8 |
| the reader's thread is woken | 15 |
| it runs | 27 |
| epoll_wait returns | 36 |
| Go's scheduler runs the goroutine, which was told to get up | 56 |
| Wait returns | 61 |
| the pass begins | 64 |
| the function is called | 70 |

cilium/ebpf's thread was back from epoll_wait after 34 µs, and its caller had the event after 56. Much of each step is caches that are cold after a pause, so what counts is how
little code and memory it touches. Blocking ringfold's thread in epoll_wait too, after 20 ms without events, gained 2 to 7 % of the median and nothing at p99, and took
about twice the CPU time at 20 events a second, as Go's sysmon polls while a thread blocks. So ringfold does not.

All readers wake for the first event; cilium/ebpf with a watermark is left out, as it would wait forever.`},

	"delay": {"Delay and order while events flow", `Another process outputs on all CPUs, each millisecond what is due. The delay is the time from the program's read of the clock to one in
the user's function. *Ordered* are ringfold's streams: *ringfold* is the default, exact order, with the way to wait for grace periods that it
chooses by itself. Variants are named by theirs (` + "`Stats().Barrier.Provider`" + `), or by the time they wait: ` + "`Slack(time.Millisecond)`" + `, and 100 ms, which Tracee waits. *Unordered* are readers that deliver as they find: *ringfold* looks every
few milliseconds while events flow, *ringfold-every-event* (` + "`Options.Wakeup.Events`" + ` is 1) is woken for each event, as cilium/ebpf's and libbpf's readers are. That is where their
delay comes from, and what the traced program pays for: see the cost of an output. CPU time is that of the reader's process, a read of the clock per event included.
*Late* is the share of events that came after one with a later time, in the worst of three rounds: by the kernel's times for streams, by the program's for the others.`},

	"harm": {"What barriers cost others", `Exact order waits for grace periods. Some ways to wait interrupt every busy CPU (expedited grace periods), others do not. Barriers are made on one CPU all the time, at the default interval or
with none between, which is more than a stream makes: it makes none while it holds nothing. Another CPU belongs to a program that reads the clock in a loop: *throughput* is how often, relative to no
barriers, but for pauses of 1 ms and more, in which other programs ran; the longest gap is the longest pause in 0.4 s, at the median of 7 times. Interrupts are the kernel's function-call interrupts (/proc/interrupts) on that CPU.
Then it mounts and unmounts a tmpfs, as that takes the same locks. A virtual machine pays more for an interrupt than a real one, and
its longest gaps are mostly the host's. For CPUs that are isolated or nohz_full: ` + "`make test-vm TESTS=harm APPEND='isolcpus=3 nohz_full=3 rcu_nocbs=3'`" + `.`},

	"cpu": {"CPU time of the reader", `Another process outputs at a steady rate, and all CPU time of this one is counted, user and system, the Go runtime included. In seconds per million
events; *idle* is what a reader takes that waits for events and gets none. Interrupts that wake the reader are charged to whoever runs at that moment: see the cost for the traced program.`},

	"overload": {"More events than can be read", `Another process outputs as fast as it can on all CPUs, and competes with the reader for them; rings have 256 KiB. *delivered* and *lost* are shares of what was tried. A
reader that wakes less often leaves programs more time to output, so more may be lost *of more*; how much CPU time the scheduler lets the reader have is in *cpu*. ringfold's events take 8 bytes
more, for the time.`},

	"ordered": {"One stream in the order of time", `Rings are filled, and then all events are read in the order of their times. They interleave perfectly (the two real CPUs take turns, of the simulated ones each event is on another,
chosen at random), or come in runs of 32 per CPU (on simulated ones: of 32 on average). Payloads have 56 bytes, rings 64 KiB; only reading is timed. *ringfold* is an ` + "`Ordered`" + ` stream
with ` + "`Slack(0)`" + `: everything that is there is due. *ringfold-unordered* delivers equal rings without order: the difference is the price of order.
*cilium-heap* is what people write: ` + "`ReadInto`" + `, then container/heap by a time that the payload begins with; records are used again, so it allocates nothing, which is more than most
programs do. *collect-sort* copies all events into one slice, by ringfold's reader without order, and sorts an index with ` + "`slices.SortFunc`" + `. Rings of more CPUs than the machine has lie in the
process's own memory, written by the kernel's rules. cilium/ebpf's reader cannot be given those, so a copy of its loop stands in, without the system call per drain.`},

	"sources": {"One stream of several sources", `The price of order over one reader and over four that have the same number of rings in all (of two rings, over two). Rings are simulated, as above; events interleave,
payloads have 56 bytes, rings and ring buffers 64 KiB. *ringfold-unordered* reads one reader's rings one after the other.

Then, the delay of a first event after a pause of 100 ms and more, from the program's read of the clock to one in the user's function. *ringfold* reads without order, *ringfold-ordered* is a stream with ` + "`Slack(0)`" + `
over that reader, and *ringfold-2-sources* one over it and an idle ring buffer, which it waits for by an epoll of two epolls. *libbpf-c* is ` + "`perf_buffer__poll`" + ` or ` + "`ring_buffer__poll`" + `. Exact order adds a barrier to
streams: see the delay while events flow.`},

	"skew": {"One hot ring among others", `One CPU outputs much more than the others, and the consumer, which takes a fixed time for each event, is barely fast enough, or
not. The share of outputs that is lost may depend on the order in which rings are visited: *ringfold* is the default. On the real kernel there are two rings, one with ten times the other's rate, and the
programs compete with the consumer for the CPUs, so figures vary by half from run to run. The 64 rings are a simulation, in virtual time, under a real ` + "`Reader`" + `: half of all outputs go to one ring
(or a tenth, where it says so), at random times; a load of 1 is what the consumer can do. With *pauses* it also does something else now and then, a tenth of the time at most, for up to 1.2 times as long as the hot ring takes to
fill up. Above a load of 1 no order can save everything: at 1.2 a sixth is lost, whatever the order. A variant of ringfold that does better than the default is listed as such.`},

	"memory": {"Memory", `What a reader takes that is open and has been used, rings included: anonymous memory of the process, and the pages that the kernel has for rings of 64 KiB; the
figures for 128 rings are reckoned from those for one. *allocs/event* is how often a reader in Go allocates for an event while it drains.`},
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
