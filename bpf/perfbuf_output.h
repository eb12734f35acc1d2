/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * perfbuf_output outputs to a perf event array and counts, for each CPU, what became of it: the kernel itself counts only the
 * outputs that a full ring refused. Use it in place of bpf_perf_event_output, for all outputs to one map:
 *
 *	#include "vmlinux.h" // or <linux/bpf.h>
 *	#include <bpf/bpf_helpers.h>
 *	#include "perfbuf_output.h"
 *
 *	perfbuf_output(ctx, &events, &event, sizeof(event));
 *
 * and give the map perfbuf_outputs, which this file defines, to perfbuf.Open as Options.Outputs.MapFD. Reader.Stats then has the
 * counts. Entry n of the map counts, on each CPU, the outputs that returned -n, entry 0 those that succeeded:
 *
 *	ENOSPC      the ring was full
 *	ENOENT      no ring: nobody reads this CPU, or the reader is paused or closed
 *	EBUSY       nested: the CPU was in three other outputs, which this one interrupted
 *	EOPNOTSUPP  this CPU was offline, and its ring is not opened anew yet; or the ring is another CPU's; or see Stats.CloseErr
 *	E2BIG       the perf event array has no entry for this CPU: max_entries is too small
 *	EMSGSIZE    90 everywhere: more than PERFBUF_OUTPUT_MOST bytes, which this file refuses
 *
 * It costs a map lookup and an atomic addition per output, and 8 * PERFBUF_OUTPUTS_MAX bytes per possible CPU. Outputs to all maps
 * are counted together. Runs of a program that the kernel skipped, as the program was running on that CPU already, get nowhere near
 * this: Options.Outputs.ProgFDs is for them.
 *
 * Linux 5.10 or newer. Objects that bpftool gen object links into one may include this in one of them: the map is not __weak, as
 * cilium/ebpf takes no weak maps.
 */
#ifndef PERFBUF_OUTPUT_H
#define PERFBUF_OUTPUT_H

/* How many entries the map has. Define it before the #include to have another number, at least 2: the last entry counts all
 * errors from there on. The largest of the above is EOPNOTSUPP, 95 (122 on MIPS). */
#ifndef PERFBUF_OUTPUTS_MAX
#define PERFBUF_OUTPUTS_MAX 128
#endif

/* The largest output. The kernel does not refuse larger ones: it returns 0, but the length of a record has 16 bits and wraps. Such an
 * output writes over others that have not been read, or leaves no trace at all. */
#define PERFBUF_OUTPUT_MOST 65508
#define PERFBUF_EMSGSIZE 90

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PERFBUF_OUTPUTS_MAX);
	__type(key, __u32);
	__type(value, __u64);
} perfbuf_outputs SEC(".maps");

/* Returns what bpf_perf_event_output does, 0 or a negative errno, or -PERFBUF_EMSGSIZE. */
static __always_inline long perfbuf_output(void *ctx, void *map, void *data, __u64 size)
{
	long ret = -PERFBUF_EMSGSIZE;
	__u64 *count;
	__u32 error;

	if (size <= PERFBUF_OUTPUT_MOST)
		ret = bpf_perf_event_output(ctx, map, BPF_F_CURRENT_CPU, data, size);
	error = -ret;
	if (error >= PERFBUF_OUTPUTS_MAX)
		error = PERFBUF_OUTPUTS_MAX - 1;
	count = bpf_map_lookup_elem(&perfbuf_outputs, &error);
	if (count)
		__sync_fetch_and_add(count, 1); /* an interrupt's program may count at the same time */
	return ret;
}

#endif
