/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * perfbuf_output outputs to a perf event array, in a lane, and counts what became of it: the kernel itself counts only the outputs
 * that a full ring refused. Use it in place of bpf_perf_event_output, for all outputs to one map:
 *
 *	#include "vmlinux.h" // or <linux/bpf.h>
 *	#include <bpf/bpf_helpers.h>
 *	#include "perfbuf_output.h"
 *
 *	PERFBUF_LANES(lanes, 1);
 *
 *	perfbuf_output(ctx, &events, &lanes, 0, &event, sizeof(event));
 *
 * and give the map lanes to perfbuf.Open as Options.LanesFD: see perfbuf_lanes.h. It returns what bpf_perf_event_output does, 0 or a negative
 * errno, or one of two of its own:
 *
 *	ENOSPC      the ring was full
 *	ENOENT      no ring: nobody reads this CPU, or the reader is paused or closed
 *	EBUSY       nested: the CPU was in three other outputs, which this one interrupted
 *	EOPNOTSUPP  this CPU was offline, and its ring is not opened anew yet; or the ring is another CPU's; or see Stats.CloseErr
 *	E2BIG       the perf event array has no entry for this CPU: max_entries is too small
 *	EMSGSIZE    90 everywhere: more than PERFBUF_OUTPUT_MOST bytes, which this file refuses
 *	ECANCELED   125 everywhere: shed, as the lane's share of the ring was full
 *
 * Runs of a program that the kernel skipped, as the program was running on that CPU already, get nowhere near this:
 * Options.ProgFDs is for them.
 *
 * Linux 5.10 or newer.
 */
#ifndef PERFBUF_OUTPUT_H
#define PERFBUF_OUTPUT_H

#include "perfbuf_lanes.h"

/* The largest output. The kernel does not refuse larger ones: it returns 0, but the length of a record has 16 bits and wraps. Such an
 * output writes over others that have not been read, or leaves no trace at all. */
#define PERFBUF_OUTPUT_MOST 65508
#define PERFBUF_EMSGSIZE 90

/* The words of the largest record of so many bytes: header, time, u32 length, the bytes, padding. */
#define PERFBUF_OUTPUT_WORDS(size) (((__u32)(size) + 27) / 8)

#define perfbuf_output(ctx, map, lanes, lane, data, size) \
	perfbuf_output_to(ctx, map, lanes, perfbuf_lanes_of(lanes), lane, data, size)

static __always_inline long perfbuf_output_to(void *ctx, void *map, void *lanes, __u64 count, __u64 lane, void *data, __u64 size)
{
	struct perfbuf_cpu *cpu = perfbuf_this_cpu(lanes);
	__u32 words = PERFBUF_OUTPUT_WORDS(size), used, why;
	struct perfbuf_lane *l;
	long ret;

	if (!cpu)
		return bpf_perf_event_output(ctx, map, BPF_F_CURRENT_CPU, data, size);
	if (lane >= count)
		lane = count - 1;
	l = &cpu->lanes[lane];
	if (size > PERFBUF_OUTPUT_MOST) {
		__sync_fetch_and_add(&l->failed[PERFBUF_TOO_LARGE], 1);
		return -PERFBUF_EMSGSIZE;
	}
	/* What interrupts this adds to written: load taken first, so that used is not too small for long. */
	used = -*(volatile __u32 *)&cpu->taken;
#pragma unroll
	for (__u32 i = 0; i < count; i++)
		used += *(volatile __u64 *)&cpu->lanes[i].written >> 32;
	if (perfbuf_sheds(cpu, lane, used, words)) {
		perfbuf_refuse(&l->shed);
		return -PERFBUF_ESHED;
	}
	ret = bpf_perf_event_output(ctx, map, BPF_F_CURRENT_CPU, data, size);
	if (!ret) {
		perfbuf_wrote(l, words);
		return 0;
	}
	switch (-ret) {
	case 28: /* ENOSPC */
		__sync_fetch_and_add(&l->full.count, 1); /* the kernel knows when */
		return ret;
	case 2: /* ENOENT */
		why = PERFBUF_NO_RING;
		break;
	case 16: /* EBUSY */
		why = PERFBUF_NESTED;
		break;
	case 95: /* EOPNOTSUPP */
		why = PERFBUF_OFFLINE;
		break;
	case 7: /* E2BIG */
		why = PERFBUF_NO_ENTRY;
		break;
	default:
		why = PERFBUF_OTHER;
	}
	__sync_fetch_and_add(&l->failed[why], 1);
	return ret;
}

#endif
