//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs events on the CPU that it is run on (BPF_PROG_TEST_RUN), and counts what becomes of them.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../../../../bpf/perfbuf_output.h"

#define MAX_COUNT 64 // most events per run, which keeps the CPU from all else

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} ringtop_events SEC(".maps"); // 14 letters: a name holds 15

PERFBUF_LANES(ringtop_lanes, 1);

SEC("raw_tp")
int load(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 count = ctx->args[0]; // events to output, at most MAX_COUNT
	__u64 event[8] = {};

	for (__u32 n = 0; n < MAX_COUNT; n++) {
		if (n >= count)
			break;
		event[0] = n;
		perfbuf_output(ctx, &ringtop_events, &ringtop_lanes, 0, event, sizeof(event));
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
