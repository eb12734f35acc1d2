package grace

import (
	"encoding/binary"
	"errors"
	"time"

	libbpf "github.com/ringfold/ringfold/cgo"
	"golang.org/x/sys/unix"
)

const nestLevelsName = "nest-levels"

// nestLevels waits until it has seen each CPU outside of outputs, and interrupts none. The kernel counts per CPU how many outputs are
// under way, one inside the other: bpf_trace_nest_level and bpf_event_output_nest_level, in kernel/trace/bpf_trace.c. A program
// reads them all.
//
// It covers less than a grace period: outputs and not programs, so the kernel's times (PERF_SAMPLE_TIME) and not those that programs
// take. And it is sound only for a watermark of which its Guard is taken off.
//
// # Every path is covered
//
// A program may pass a perf event array to five helpers (check_map_func_compatibility, kernel/bpf/verifier.c), of which two only
// read. These write, in Linux 6.1, 6.12 and 7.2:
//
//	bpf_perf_event_output, for kprobes, uprobes     bpf_perf_event_output                 bpf_trace_nest_level
//	    for tracepoints, perf events                bpf_perf_event_output_tp              bpf_trace_nest_level
//	    for raw and BTF tracepoints, fentry, LSM    bpf_perf_event_output_raw_tp          bpf_trace_nest_level
//	    for socket filters, tc, cgroup skb, lwt     bpf_skb_event_output                  bpf_event_output_nest_level
//	    for XDP                                     bpf_xdp_event_output                  bpf_event_output_nest_level
//	    for sock_ops, sk_msg, sk_lookup, cgroup
//	    sock, sockaddr, sysctl, sockopt, device     bpf_event_output_data                 bpf_event_output_nest_level
//	bpf_skb_output                                  bpf_skb_event_output                  bpf_event_output_nest_level
//	bpf_xdp_output                                  bpf_xdp_event_output                  bpf_event_output_nest_level
//
// All of them are calls of bpf_perf_event_output or bpf_event_output, the only callers of __bpf_perf_event_output, which is the only
// way to an event's perf_event_output by way of a map. It refuses an event of another CPU.
//
// # Why a level of 0 is enough
//
// Let T be a time that was read before the look, and let an output have taken its time t before T, less the guard. On its CPU it did,
// in this order, with preemption or at least migration off: raise its level, take t (perf_prepare_sample), write the record, store
// data_head (perf_output_put_handle), lower the level.
//
//   - The look sees the level raised, or what came later. An x86 CPU makes its stores visible in order, and delays them only while they
//     are in its store buffer, which the raise has entered when t is taken: rdtsc_ordered begins with a fence that waits for that.
//     No manual bounds how long a store stays there, but it leaves as fast as the memory takes those before it, of which a hundred fit.
//     One that is never delivered would be a defect. Behind 40 that miss all caches, 2 us was the longest of 4 million on a virtual
//     machine. The guard has room for a hundred that wait 400 ns each, one after the other, and for clocks that are apart. A CPU that is
//     interrupted, or a virtual one that is taken off its real one, empties its store buffer first.
//   - So a level that is seen as 0 was lowered again by that output, and by each that was under way on that CPU before the look.
//     What the level's owner stored before that, the record and data_head, is visible to whoever has seen that 0, and to whoever
//     acquires from it (x86 is multi-copy atomic; the look's loads are acquires).
//   - An output may be nested in another, of a softirq, an interrupt or an NMI, and only the outermost stores data_head. The outermost
//     began before it, so before T, and raised its level too, this one or the other. Both levels are seen as 0, each at some time after
//     T, so both have ended. They need not be 0 at the same time.
//   - An output that begins later takes a time later than T, less the guard.
//   - A CPU that is offline has ended its outputs, and one that has never been online has had none: their levels are 0. One that comes
//     online is among the possible CPUs, all of which are looked at.
//
// Architectures that store in any order, such as arm64, would need barriers that the kernel does not have there.
type nestLevels struct {
	look     func(from int) (int, error) // the first CPU from this one on with an output under way; -1 if there is none
	fallback Provider
	prog     int // a descriptor; -1 when closed
}

// openNestLevels returns a provider that has been shown to see outputs on this machine. That takes some ms once in a process.
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

// nestLevelsGuard is how much older than the look, in ns, an output must be to be seen: DefaultGuard, and a store buffer's time.
const nestLevelsGuard = DefaultGuard + 40_000

// Guard returns the least guard, in ns, of a barrier that waits this way.
func (*nestLevels) Guard() uint64 { return nestLevelsGuard }

const (
	eagerLooks  = 32                    // so many looks that see an output follow one another without a pause
	firstPause  = 20 * time.Microsecond // then pauses double
	lastPause   = time.Millisecond
	mostLooking = 20 * time.Millisecond // and after that there is a grace period: about as long as it takes
)

// Wait looks until it has seen each CPU outside of outputs. An output takes microseconds, so a second look follows soon; only that of a
// virtual CPU that is not run takes long, and nothing else would end sooner. For CPUs that output so much that no look finds a gap,
// a grace period takes over after a while.
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
		from = busy // those before it have been seen
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

// A nestLevel is what a look returns: 0 for none, 1 for CPU 0's bpf_trace_nest_level, 2 for its bpf_event_output_nest_level, 3 for CPU
// 1's bpf_trace_nest_level, and so on.
type nestLevel uint32

func (l nestLevel) cpu() int { return (int(l)+1)/2 - 1 }

func levelOf(cpu, variable int) nestLevel { return nestLevel(2*cpu + variable + 1) }

// look returns the first level that is not 0, from a CPU on, of so many CPUs.
func look(prog, from, cpus int) (nestLevel, error) {
	var ctx [8]byte
	for ; from < cpus; from += lookCPUs {
		binary.NativeEndian.PutUint64(ctx[:], uint64(from))
		level, err := libbpf.ProgTestRun(prog, nil, ctx[:], -1)
		if err != nil || level != 0 {
			return nestLevel(level), err
		}
	}
	return 0, nil
}
