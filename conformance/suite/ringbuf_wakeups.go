package suite

import (
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/workload"
	"golang.org/x/sys/unix"
)

// ringbufPingPong: Thousands of single events of a BPF ring buffer come one at a time, and none waits for the next.
//
// Expected: as delivery/trickle, however close an event comes to the reader's going to sleep.
//
// Kernel: a commit clears the record's busy bit, then loads consumer_pos and wakes the reader if that is the record's
// (bpf_ringbuf_commit). The reader stores consumer_pos, then looks at producer_pos. Both must look after they have stored, which takes
// a full barrier in the reader, too. Else the event lies there and nobody is woken.
//
// Set-up: 4,000 rounds (1,000 in the short form), CPUs by turns. A single event; the time until it is delivered is taken. Then 16 events,
// with gaps of a share of that time, from none to a quarter: some meet the reader while it goes to sleep, and none after it wakes it.
//
// Check: each round's events are delivered before the next is output.
//
// Known: aya had a weaker barrier than that, which is enough on amd64 and arm64 (commit 7277a57ea8cd).
func ringbufPingPong(t *T) {
	source, s := t.ringbuf(1 << 16)
	cpus, rounds, want := t.some(), 4000, 0
	if t.short {
		rounds = 1000
	}
	output := func(i int) {
		t.Output(source, cpus[i%len(cpus)], 1, 64)
		want++
	}
	arrives := func() { s.Until("all is delivered", func(st *State) bool { return st.Events >= want }) }
	for i := range rounds {
		begin := time.Now()
		output(i)
		arrives()
		gap := time.Since(begin) * time.Duration(i%64*(i%64)) / (4 * 63 * 63)
		for n := range 16 {
			for begin = time.Now(); time.Since(begin) < gap; { // to sleep would be too coarse
			}
			output(i + n)
		}
		arrives()
	}
	s.Account()
}

// ringbufFlags: Events of a BPF ring buffer that wake the reader, never wake it or always do come once each, in order.
//
// Expected: programs that share a map may have different ideas of wakeups: some save them (BPF_RB_NO_WAKEUP), some insist
// (BPF_RB_FORCE_WAKEUP), and most leave it to the kernel. That decides when the reader looks, not what it finds.
//
// Kernel: as delivery/ringbuf-ping-pong; the flags are those of each commit. A perf event array has no such flags: its perf events say
// when they wake.
//
// Set-up: 600 groups of 1 to 12 events on all CPUs by turns. Each event has one of the three flags, and a group's last one insists.
//
// Check: after each group all is delivered, in the order of the outputs.
func ringbufFlags(t *T) {
	_, s := t.ringbuf(1 << 16)
	script, cpus := t.script(), t.some()
	flags := []uint64{0, workload.NoWakeup, workload.ForceWakeup}
	for i := range 600 {
		for n := range i % 12 {
			script.output(s, 0, cpus[(i+n)%len(cpus)], 1, 64, flags[i*n%7%3])
		}
		script.output(s, 0, cpus[i%len(cpus)], 1, 64, workload.ForceWakeup)
		s.Settle()
	}
	script.check(s)
	s.Account()
}

// ringbufQuiet: An event of a BPF ring buffer is delivered though a record before it has woken nobody.
//
// Expected: a program that discards a record quietly, or outputs one, takes no wakeup from others.
//
// Kernel: discarded records stay in the buffer until the reader passes them. A commit wakes if consumer_pos is its own record
// (bpf_ringbuf_commit). While a record with BPF_RB_NO_WAKEUP lies before it, it is not, and so neither this event nor any later one wakes
// the reader, until one has BPF_RB_FORCE_WAKEUP. epoll does not look by itself either: a wakeup makes it look. Only a reader that looks
// now and then by itself finds the event. With a deadline, for instance, cilium/ebpf's does.
//
// Set-up: while the reader sleeps, a record is discarded, or output, with BPF_RB_NO_WAKEUP; then comes an event without flags. Ten times.
//
// Check: the event is delivered, though nothing follows. The longest that it took is noted.
//
// Known: the kernel's documentation says so since 2026 (libbpf commit c2838bdfe539).
func ringbufQuiet(t *T) {
	source, s := t.ringbuf(1 << 16)
	var slowest time.Duration
	for i := range 10 {
		cpu := t.some()[i%len(t.some())]
		sleepMillis(30)
		quiet := workload.Output{Count: 1, Size: 64, To: source.Map(), Flags: workload.NoWakeup, Every: 1}
		if i%2 == 0 {
			t.must(source.Stamped(cpu, quiet)) // and discarded
		} else {
			t.must(source.Output(cpu, quiet))
		}
		begin := time.Now()
		t.Output(source, cpu, 1, 64)
		s.Settle()
		slowest = max(slowest, time.Since(begin))
	}
	s.Account()
	t.Notef("%v at most", slowest.Round(time.Millisecond))
}

// ringbufOverwrite: A BPF ring buffer that programs overwrite is refused by a reader that expects them to wait.
//
// Expected: the flag is named, or the map is read as what it is. A reader that does not know it delivers garbage.
//
// Kernel: with BPF_F_RB_OVERWRITE (Linux 6.19) a full buffer refuses nothing: the producer moves overwrite_pos over the oldest records,
// read or not, and consumer_pos means nothing to it.
//
// Set-up: a map with that flag.
//
// Check: the reader reports an error when it opens the map, and the process ends with status 0.
func ringbufOverwrite(t *T) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 16, Flags: bpf.FlagOverwrite})
	if err != nil && bpf.OlderThan(6, 19) {
		t.Cannotf("this takes Linux 6.19")
	}
	t.must(err)
	source := t.Source(Config{Kind: "ringbuf"})
	own, err := unix.Dup(m.FD())
	m.Close()
	t.must(err)
	t.refuses(source, os.NewFile(uintptr(own), "overwritten"), "it is opened and read as if programs waited for the reader")
}
