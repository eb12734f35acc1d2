//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs a flood on the CPU that it is run on (BPF_PROG_TEST_RUN): one important event, and many others.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../../../../bpf/perfbuf_output.h"

#define COUNT 256 // of others, per run

enum { OTHERS, IMPORTANT, LANES };

PERFBUF_LANES(lanes, LANES);

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} overload SEC(".maps");

SEC("raw_tp")
int flood(void *ctx)
{
	__u64 event[8] = {};

	perfbuf_output(ctx, &overload, &lanes, IMPORTANT, event, sizeof(event));
	for (__u32 n = 0; n < COUNT; n++)
		perfbuf_output(ctx, &overload, &lanes, OTHERS, event, sizeof(event));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
