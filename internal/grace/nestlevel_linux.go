package grace

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/ringfold/ringfold/internal/bpf"
	"golang.org/x/sys/unix"
)

const nestLevelsName = "nest-levels"

// nestLevels waits until it has seen each CPU outside of outputs, and interrupts none. The kernel
// counts nested outputs per CPU in bpf_trace_nest_level and bpf_event_output_nest_level
// (kernel/trace/bpf_trace.c). A program reads them all.
//
// It covers less than a grace period: outputs but not programs, so the kernel's times
// (PERF_SAMPLE_TIME) but not those that programs take. It is sound only for a watermark reduced by
// its Guard.
//
// # Every path is covered
//
// A program may pass a perf event array to five helpers (check_map_func_compatibility,
// kernel/bpf/verifier.c), of which two only read. These write, in Linux 6.1, 6.12 and 7.2. Their
// functions raise bpf_trace_nest_level, or those marked with * bpf_event_output_nest_level:
//
//	bpf_perf_event_output, for kprobes, uprobes      bpf_perf_event_output
//	    for tracepoints, perf events                 bpf_perf_event_output_tp
//	    for raw and BTF tracepoints, fentry, LSM     bpf_perf_event_output_raw_tp
//	    for socket filters, tc, cgroup skb, lwt      bpf_skb_event_output *
//	    for XDP                                      bpf_xdp_event_output *
//	    for sock_ops, sk_msg, sk_lookup, cgroup
//	    sock, sockaddr, sysctl, sockopt, device      bpf_event_output_data *
//	bpf_skb_output                                   bpf_skb_event_output *
//	bpf_xdp_output                                   bpf_xdp_event_output *
//
// All of them call bpf_perf_event_output or bpf_event_output, the only callers of
// __bpf_perf_event_output. That function alone leads from a map to an event's perf_event_output,
// and it refuses events of other CPUs.
//
// # Why a level of 0 is enough
//
// Let T be a time read before the look, and let an output have taken its time t before T, less the
// guard. Its CPU did the following in order, without preemption or at least without migration:
// raise the level, take t (perf_prepare_sample), write the record, store data_head
// (perf_output_put_handle), lower the level.
//
//   - The look sees the level raised, or a later value. An x86 CPU makes its stores visible in
//     order. It delays them only in its store buffer, where the raise is when t is taken:
//     rdtsc_ordered begins with a fence that waits for that. No manual bounds a store's time there,
//     but it leaves as fast as memory takes the up to a hundred stores before it. Never delivering
//     one would be a defect. Behind 40 cache misses, 2 us was the longest of 4 million on a virtual
//     machine. The guard has room for a hundred that wait 400 ns each in turn, and for clock
//     differences. An interrupted or descheduled CPU first empties its store buffer.
//   - So if the look sees a level of 0, that output has lowered it, and so has each that was under
//     way on the CPU before the look. The owner's earlier stores, the record and data_head, are
//     visible to any reader that saw the 0 or acquires from one that did. (x86 is multi-copy
//     atomic; the look's loads are acquires.)
//   - A softirq, an interrupt or an NMI may nest an output in another, and only the outermost
//     stores data_head. The outermost began before it, so before T, and also raised one of the two
//     levels. The look sees both as 0, each at some time after T, so both outputs have ended. The
//     levels need not be 0 at the same time.
//   - An output that begins later takes a time later than T, less the guard.
//   - An offline CPU has ended its outputs, and one never online has had none: their levels are 0.
//     A CPU that comes online is among the possible CPUs, and the look covers all of those.
//
// Architectures that reorder stores, such as arm64, would need barriers that the kernel lacks
// there.
type nestLevels struct {
	// The first CPU, from this one on, with an output under way; -1 if there is none.
	look     func(from int) (int, error)
	fallback Provider
	prog     int // a descriptor; -1 when closed
}

// openNestLevels returns a provider proven to see outputs on this machine. The proof takes some ms
// once per process.
func openNestLevels() (Provider, error) {
	facts, err := nestLevelFacts()
	if err != nil {
		return nil, err
	}
	fallback, err := openMapInMap()
	if err != nil {
		return nil, err
	}
	prog, err := loadLook(facts.variables, facts.cpus)
	if err != nil {
		fallback.Close()
		return nil, err
	}
	n := &nestLevels{fallback: fallback, prog: prog}
	n.look = func(from int) (int, error) {
		level, err := look(n.prog, from, facts.cpus)
		return level.cpu(), err
	}
	return n, nil
}

func (*nestLevels) Name() string { return nestLevelsName }

// nestLevelsGuard is how much older than the look, in ns, an output must be to be seen:
// DefaultGuard plus time for the store buffer.
const nestLevelsGuard = DefaultGuard + 40_000

// Guard returns the least guard, in ns, for a barrier with this provider.
func (*nestLevels) Guard() uint64 { return nestLevelsGuard }

const (
	// This many looks that see an output follow each other without a pause.
	eagerLooks = 32
	firstPause = 20 * time.Microsecond // then pauses double
	lastPause  = time.Millisecond
	// After this time, about that of a grace period, comes a grace period.
	mostLooking = 20 * time.Millisecond
)

// Wait looks until it has seen each CPU outside of outputs. An output takes microseconds, so a
// second look follows soon. Only on a descheduled virtual CPU does it take long, and no other
// provider would end sooner. If CPUs output so much that no look finds a gap, a grace period takes
// over.
func (n *nestLevels) Wait() error {
	var begin time.Time
	pause := firstPause
	from := 0
	for looks := 1; ; looks++ {
		busy, err := n.look(from)
		if err != nil {
			return err
		}
		if busy < 0 {
			return nil
		}
		from = busy // the look has cleared those before it
		switch {
		case looks < eagerLooks:
		case looks == eagerLooks:
			begin = time.Now()
		case time.Since(begin) >= mostLooking:
			return n.fallback.Wait()
		default:
			time.Sleep(pause)
			pause = min(2*pause, lastPause)
		}
	}
}

func (n *nestLevels) Close() error {
	err := errors.Join(unix.Close(n.prog), n.fallback.Close())
	n.prog = -1
	return err
}

// A nestLevel is the result of a look: 0 for none, 1 for CPU 0's bpf_trace_nest_level, 2 for its
// bpf_event_output_nest_level, 3 for CPU 1's bpf_trace_nest_level, and so on.
type nestLevel uint32

func (l nestLevel) cpu() int { return (int(l)+1)/2 - 1 }

func levelOf(cpu, variable int) nestLevel { return nestLevel(2*cpu + variable + 1) }

// look returns the first level that is not 0 among CPUs from to cpus-1.
func look(prog, from, cpus int) (nestLevel, error) {
	var ctx [8]byte
	for ; from < cpus; from += lookCPUs {
		binary.NativeEndian.PutUint64(ctx[:], uint64(from))
		level, err := bpf.ProgTestRun(prog, nil, ctx[:], -1)
		if err != nil || level != 0 {
			return nestLevel(level), err
		}
	}
	return 0, nil
}
