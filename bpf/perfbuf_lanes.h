/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Lanes are classes of events. This counts what becomes of the outputs in each lane on each CPU, and keeps room for the important ones:
 * while a ring is fuller than a lane's share of it, outputs in that lane are shed. perfbuf_output.h and perfbuf_ringbuf.h output by it.
 *
 *	PERFBUF_LANES(lanes, 2); // 0: what may be shed; 1: what must not
 *
 * Give the map to perfbuf.Open or OpenRingBuf as LanesFD, and each lane's share as Lanes: {50, 100}. One reader has it at a time. Use
 * it for all outputs to one map, and for that map alone: a lane's room is then what other lanes leave.
 *
 * How it works. A program knows how full its CPU's ring is: it adds up the bytes of what it has output, and the reader publishes,
 * with every store of data_tail, how far it has read. So no reaction time passes between a full ring and the first event that is shed.
 * A BPF ring buffer is asked (bpf_ringbuf_query). Programs that interrupt each other may each find the same room: the room of a lane is
 * exact but for one output for each level of nesting, and in a ring buffer for each CPU. Without a reader nothing is shed, and
 * outputs fail as ever; but if a reader is killed, the shares hold until the next one comes.
 *
 * An output costs an array lookup and an atomic addition. Memory: (64 + 128 * lanes) * PERFBUF_CPUS bytes.
 */
#ifndef PERFBUF_LANES_H
#define PERFBUF_LANES_H

/* How many entries the map has. Define it before the #include to have another number. Perf event arrays need an entry for each
 * possible CPU. With ring buffers, CPUs from the last one on are counted together, in the last entry. */
#ifndef PERFBUF_CPUS
#define PERFBUF_CPUS 512
#endif

/* What a shed output returns: ECANCELED. */
#define PERFBUF_ESHED 125

/* Why outputs failed. */
enum perfbuf_failure { PERFBUF_FULL, PERFBUF_NO_RING, PERFBUF_NESTED, PERFBUF_OFFLINE, PERFBUF_NO_ENTRY, PERFBUF_TOO_LARGE, PERFBUF_OTHER };

/* Outputs that got nowhere. Times are those since the reader looked: see perfbuf_refuse. */
struct perfbuf_refused {
	__u64 count, first, last;
	__u64 seen; /* count as the reader has seen it, who writes this */
};

/* A lane on a CPU. Outputs that succeed touch the first cache line only. */
struct perfbuf_lane {
	/* How many outputs were written, in the low half, and their words of 8 bytes, in the high half. Both wrap: one addition for two sums. */
	__u64 written;
	struct perfbuf_refused shed, full;
	__u64 failed[7]; /* of each failure but PERFBUF_FULL, which is above */
};

/* A CPU. Its own cache line is the reader's, as the others are the programs'. */
struct perfbuf_cpu {
	__u32 taken;      /* words that have left the ring; what has been written beyond that is in it */
	__u32 limits[14]; /* for each lane: how many words the ring may hold; 0: any */
	__u32 owner;      /* the reader's */
	struct perfbuf_lane lanes[];
};

#define PERFBUF_LANES(name, count)                                                        \
	struct {                                                                          \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                         \
		__uint(map_flags, BPF_F_MMAPABLE);                                        \
		__uint(max_entries, PERFBUF_CPUS);                                        \
		__type(key, __u32);                                                       \
		__type(value, __u64[(64 + 128 * (count)) / 8]);                           \
	} name SEC(".maps")

/* How many lanes a map has, from 1 to 14. */
#define perfbuf_lanes_of(map) ((sizeof(*(map)->value) - 64) / 128)

/* Where this CPU counts; never NULL if the map has PERFBUF_CPUS entries. */
static __always_inline struct perfbuf_cpu *perfbuf_this_cpu(void *lanes)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (cpu >= PERFBUF_CPUS)
		cpu = PERFBUF_CPUS - 1;
	return bpf_map_lookup_elem(lanes, &cpu);
}

/* Counts an output that got nowhere. Programs interrupt and preempt each other here too, at any place, and the reader may look. The
 * number is exact. A program that finds that none was refused since the reader looked stores first, behind the addition: one that
 * interrupts it after that leaves first alone. But if another is refused between its two loads, or preempted programs store in
 * another order than they began, first is the later one's time: too late by as long as a program was kept here. An exact minimum needs
 * atomic operations that fetch (Linux 5.12). */
static __always_inline void perfbuf_refuse(struct perfbuf_refused *r)
{
	__u64 now = bpf_ktime_get_ns();
	int is_first = *(volatile __u64 *)&r->count == *(volatile __u64 *)&r->seen;

	__sync_fetch_and_add(&r->count, 1);
	if (is_first)
		*(volatile __u64 *)&r->first = now;
	*(volatile __u64 *)&r->last = bpf_ktime_get_ns();
}

/* Counts an output of so many words that was written. A program that has interrupted this one since its output may be counted first. */
static __always_inline void perfbuf_wrote(struct perfbuf_lane *lane, __u32 words)
{
	__sync_fetch_and_add(&lane->written, (__u64)words << 32 | 1);
}

/* Whether a lane has no room for so many words in a ring that holds used. The difference is signed: used is below 0 for a
 * moment if the reader has read a record that reports losses, and takes it for one that was counted. */
static __always_inline int perfbuf_sheds(struct perfbuf_cpu *cpu, __u64 lane, __u32 used, __u32 words)
{
	__u32 limit = *(volatile __u32 *)&cpu->limits[lane];

	return limit && (__s32)(used + words - limit) > 0;
}

#endif
