/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * For programs that output to a BPF ring buffer. The kernel does not count the outputs that a full ring buffer refuses, and
 * does not say when records were made. This does both, and outputs in lanes:
 *
 *	#include "vmlinux.h" // or <linux/bpf.h>
 *	#include <bpf/bpf_helpers.h>
 *	#include "perfbuf_ringbuf.h"
 *
 *	struct {
 *		__uint(type, BPF_MAP_TYPE_RINGBUF);
 *		__uint(max_entries, 1 << 20);
 *	} events SEC(".maps");
 *	PERFBUF_LANES(lanes, 1);
 *
 *	perfbuf_ringbuf_output(&events, &lanes, 0, &event, sizeof(event), 0);
 *
 * or, filled in in the ring buffer, with the time stored in its field time:
 *
 *	struct event *e = perfbuf_ringbuf_reserve(&events, &lanes, 0, struct event, time);
 *	if (!e)
 *		return 0;
 *	e->pid = pid;
 *	bpf_ringbuf_submit(e, 0);
 *
 * Give the map of lanes to perfbuf.OpenRingBuf with the ring buffer, or with the map of ring buffers, all outputs to which are
 * counted in it: see perfbuf_lanes.h. Each OpenRingBuf takes a map of its own.
 *
 * Why the stamp comes after the reservation. A program that takes its time first can be kept from reserving for as long as it pleases
 * the scheduler, and if it may sleep, for any time. An ordered stream must wait for such programs. With a stamp that is later than the
 * reservation it need not: whoever reads the clock and then producer_pos has below that position all records whose stamps are older than
 * the clock's reading, finished or marked as busy. That holds as bpf_ringbuf_reserve stores producer_pos before it returns, and the
 * compiler moves no helper's call before another's. The store may linger in the processor's store buffer while the clock is read,
 * for well below a microsecond; streams allow for 10 us. So the time must be what perfbuf_ringbuf_reserve has stored: do not change it.
 *
 * Linux 5.8 or newer, also in programs that may sleep, where the kernel lets these have ring buffers (5.12).
 */
#ifndef PERFBUF_RINGBUF_H
#define PERFBUF_RINGBUF_H

#include "perfbuf_lanes.h"

/* The words of a record of so many bytes: header, the bytes, padding. */
#define PERFBUF_RINGBUF_WORDS(size) (((__u32)(size) + 15) / 8)

/* Where an output of so many bytes counts, in this lane or the last; NULL if it is shed, which is counted then. */
static __always_inline struct perfbuf_lane *perfbuf_ringbuf_begin(void *ringbuf, void *lanes, __u64 count, __u64 lane, __u64 size)
{
	struct perfbuf_cpu *cpu = perfbuf_this_cpu(lanes);
	struct perfbuf_lane *l;

	if (!cpu)
		return 0;
	if (lane >= count)
		lane = count - 1;
	l = &cpu->lanes[lane];
	if (*(volatile __u32 *)&cpu->limits[lane] &&
	    perfbuf_sheds(cpu, lane, bpf_ringbuf_query(ringbuf, BPF_RB_AVAIL_DATA) / 8, PERFBUF_RINGBUF_WORDS(size))) {
		perfbuf_refuse(&l->shed);
		return 0;
	}
	return l;
}

static __always_inline void perfbuf_ringbuf_end(struct perfbuf_lane *l, int written, __u64 size)
{
	if (written)
		perfbuf_wrote(l, PERFBUF_RINGBUF_WORDS(size));
	else
		perfbuf_refuse(&l->full);
}

static __always_inline long perfbuf_ringbuf_output_to(void *ringbuf, void *lanes, __u64 count, __u64 lane, void *data, __u64 size, __u64 flags)
{
	struct perfbuf_lane *l = perfbuf_ringbuf_begin(ringbuf, lanes, count, lane, size);
	long ret;

	if (!l)
		return -PERFBUF_ESHED;
	ret = bpf_ringbuf_output(ringbuf, data, size, flags);
	perfbuf_ringbuf_end(l, !ret, size);
	return ret;
}

/* bpf_ringbuf_output in a lane, counted. Returns what that does, 0 or a negative errno, or -PERFBUF_ESHED. */
#define perfbuf_ringbuf_output(ringbuf, lanes, lane, data, size, flags) \
	perfbuf_ringbuf_output_to(ringbuf, lanes, perfbuf_lanes_of(lanes), lane, data, size, flags)

/* bpf_ringbuf_reserve of a constant number of bytes, counted. A macro, as the verifier has to see the constant. */
#define perfbuf_ringbuf_reserve_bytes(ringbuf, lanes, lane, size)                                                          \
	({                                                                                                                 \
		struct perfbuf_lane *__l = perfbuf_ringbuf_begin(ringbuf, lanes, perfbuf_lanes_of(lanes), lane, size);     \
		void *__bytes = __l ? bpf_ringbuf_reserve(ringbuf, size, 0) : 0;                                           \
                                                                                                                           \
		if (__l)                                                                                                   \
			perfbuf_ringbuf_end(__l, !!__bytes, size);                                                         \
		__bytes;                                                                                                   \
	})

/* Reserves a struct, and stamps it: stores bpf_ktime_get_ns() in this field of it, a __u64, after the reservation. Returns NULL if
 * there is no room, or the output is shed. What it returns goes to bpf_ringbuf_submit or bpf_ringbuf_discard. */
#define perfbuf_ringbuf_reserve(ringbuf, lanes, lane, type, time)                                    \
	({                                                                                           \
		type *__rec = perfbuf_ringbuf_reserve_bytes(ringbuf, lanes, lane, sizeof(type));     \
                                                                                                     \
		if (__rec)                                                                           \
			__rec->time = bpf_ktime_get_ns();                                            \
		__rec;                                                                               \
	})

/* Stamped output of the struct that data, of type struct something *, points to: its copy in the ring buffer has the stamp in this
 * field. For structs of up to 1 KiB, which the compiler copies; others are better filled in in the ring buffer anyway. Returns 0, or
 * -EAGAIN if there is no room or the output is shed. */
#define perfbuf_ringbuf_output_stamped(ringbuf, lanes, lane, data, time_field, flags)                                      \
	({                                                                                                                 \
		__typeof__(*(data)) *__copy = perfbuf_ringbuf_reserve_bytes(ringbuf, lanes, lane, sizeof(*(data)));        \
                                                                                                                           \
		if (__copy) {                                                                                              \
			__builtin_memcpy(__copy, data, sizeof(*(data)));                                                   \
			__copy->time_field = bpf_ktime_get_ns();                                                           \
			bpf_ringbuf_submit(__copy, flags);                                                                 \
		}                                                                                                          \
		__copy ? 0L : -11L;                                                                                        \
	})

#endif
