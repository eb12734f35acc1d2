/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * For programs that output to a BPF ring buffer. The kernel does not count the outputs that a full ring buffer refuses, and
 * does not say when records were made. This does both:
 *
 *	#include "vmlinux.h" // or <linux/bpf.h>
 *	#include <bpf/bpf_helpers.h>
 *	#include "perfbuf_ringbuf.h"
 *
 *	struct {
 *		__uint(type, BPF_MAP_TYPE_RINGBUF);
 *		__uint(max_entries, 1 << 20);
 *	} events SEC(".maps");
 *	PERFBUF_RINGBUF_LOSSES(losses);
 *
 *	perfbuf_ringbuf_output(&events, &losses, &event, sizeof(event), 0);
 *
 * or, filled in in the ring buffer, with the time stored in its field time:
 *
 *	struct event *e = perfbuf_ringbuf_reserve(&events, &losses, struct event, time);
 *	if (!e)
 *		return 0;
 *	e->pid = pid;
 *	bpf_ringbuf_submit(e, 0);
 *
 * Give the map of losses to perfbuf.OpenRingBuf with the ring buffer, or with the map of ring buffers, all outputs to which are
 * counted in it. Each OpenRingBuf takes a map of its own.
 *
 * Why the stamp comes after the reservation. A program that takes its time first can be kept from reserving for as long as it pleases
 * the scheduler, and if it may sleep, for any time. An ordered stream must wait for such programs. With a stamp that is later than the
 * reservation it need not: whoever reads the clock and then producer_pos has below that position all records whose stamps are older than
 * the clock's reading, finished or marked as busy. That holds as bpf_ringbuf_reserve stores producer_pos before it returns, and the
 * compiler moves no helper's call before another's. The store may linger in the processor's store buffer while the clock is read,
 * for well below a microsecond; streams allow for 10 us. So the time must be what perfbuf_ringbuf_reserve has stored: do not change it.
 *
 * It costs an array lookup and an atomic addition per output. Memory: 64 * PERFBUF_RINGBUF_CPUS bytes.
 *
 * Linux 5.8 or newer, also in programs that may sleep, where the kernel lets these have ring buffers (5.12).
 */
#ifndef PERFBUF_RINGBUF_H
#define PERFBUF_RINGBUF_H

/* How many entries a map of losses has. Define it before the #include to have another number. CPUs from the last one on are counted
 * together, in the last entry. */
#ifndef PERFBUF_RINGBUF_CPUS
#define PERFBUF_RINGBUF_CPUS 512
#endif

/* Of a CPU. A cache line each, as CPUs write theirs at the same time. */
struct perfbuf_ringbuf_losses {
	__u64 attempted; /* outputs and reservations */
	__u64 failed;	 /* of these */
	__u64 first;	 /* time of the first that has failed since the reader looked: see perfbuf_ringbuf_fail */
	__u64 last;	 /* time of the last */
	__u64 taken;	 /* failed as the reader has seen it, who writes this */
	__u64 unused[3];
};

/* Defines a map of losses. The reader maps it, and looks without a system call. */
#define PERFBUF_RINGBUF_LOSSES(name)                          \
	struct {                                              \
		__uint(type, BPF_MAP_TYPE_ARRAY);             \
		__uint(map_flags, BPF_F_MMAPABLE);            \
		__uint(max_entries, PERFBUF_RINGBUF_CPUS);    \
		__type(key, __u32);                           \
		__type(value, struct perfbuf_ringbuf_losses); \
	} name SEC(".maps")

/* Where this CPU counts in a map of losses; never NULL if the map has PERFBUF_RINGBUF_CPUS entries. */
static __always_inline struct perfbuf_ringbuf_losses *perfbuf_ringbuf_begin(void *losses)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct perfbuf_ringbuf_losses *l;

	if (cpu >= PERFBUF_RINGBUF_CPUS)
		cpu = PERFBUF_RINGBUF_CPUS - 1;
	l = bpf_map_lookup_elem(losses, &cpu);
	if (l)
		__sync_fetch_and_add(&l->attempted, 1); /* another program may have interrupted this one on its CPU */
	return l;
}

/* Counts a failure. Programs interrupt and preempt each other here too, at any place, and the reader may look. The number is exact. A program
 * that finds that none has failed since the reader looked stores first, behind the addition: one that interrupts it after that leaves first
 * alone. But if another fails between its two loads, or preempted programs store in another order than they began, first is the later
 * one's time: too late by as long as a program was kept here. An exact minimum needs atomic operations that fetch (Linux 5.12). */
static __always_inline void perfbuf_ringbuf_fail(struct perfbuf_ringbuf_losses *l)
{
	__u64 now = bpf_ktime_get_ns();
	int is_first;

	if (!l)
		return;
	is_first = *(volatile __u64 *)&l->failed == *(volatile __u64 *)&l->taken;
	__sync_fetch_and_add(&l->failed, 1);
	if (is_first)
		*(volatile __u64 *)&l->first = now;
	*(volatile __u64 *)&l->last = bpf_ktime_get_ns();
}

/* bpf_ringbuf_output, counted. Returns what that does: 0 or a negative errno. */
static __always_inline long perfbuf_ringbuf_output(void *ringbuf, void *losses, void *data, __u64 size, __u64 flags)
{
	struct perfbuf_ringbuf_losses *l = perfbuf_ringbuf_begin(losses);
	long ret = bpf_ringbuf_output(ringbuf, data, size, flags);

	if (ret)
		perfbuf_ringbuf_fail(l);
	return ret;
}

/* bpf_ringbuf_reserve of a constant number of bytes, counted. A macro, as the verifier has to see the constant. */
#define perfbuf_ringbuf_reserve_bytes(ringbuf, losses, size)                         \
	({                                                                           \
		struct perfbuf_ringbuf_losses *__l = perfbuf_ringbuf_begin(losses);  \
		void *__bytes = bpf_ringbuf_reserve(ringbuf, size, 0);               \
                                                                                     \
		if (!__bytes)                                                        \
			perfbuf_ringbuf_fail(__l);                                   \
		__bytes;                                                             \
	})

/* Reserves a struct, and stamps it: stores bpf_ktime_get_ns() in this field of it, a __u64, after the reservation. Returns NULL if
 * there is no room. What it returns goes to bpf_ringbuf_submit or bpf_ringbuf_discard. */
#define perfbuf_ringbuf_reserve(ringbuf, losses, type, time)                                \
	({                                                                                  \
		type *__rec = perfbuf_ringbuf_reserve_bytes(ringbuf, losses, sizeof(type)); \
                                                                                            \
		if (__rec)                                                                  \
			__rec->time = bpf_ktime_get_ns();                                   \
		__rec;                                                                      \
	})

/* Stamped output of the struct that data, of type struct something *, points to: its copy in the ring buffer has the stamp in this
 * field. For structs of up to 1 KiB, which the compiler copies; others are better filled in in the ring buffer anyway. Returns 0, or
 * -EAGAIN if there is no room, as bpf_ringbuf_output does. */
#define perfbuf_ringbuf_output_stamped(ringbuf, losses, data, time_field, flags)                         \
	({                                                                                               \
		__typeof__(*(data)) *__copy = perfbuf_ringbuf_reserve_bytes(ringbuf, losses, sizeof(*(data))); \
                                                                                                         \
		if (__copy) {                                                                            \
			__builtin_memcpy(__copy, data, sizeof(*(data)));                                 \
			__copy->time_field = bpf_ktime_get_ns();                                         \
			bpf_ringbuf_submit(__copy, flags);                                               \
		}                                                                                        \
		__copy ? 0L : -11L;                                                                      \
	})

#endif
