//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs numbered events on whatever CPU it is run on, and in a timer's interrupt that comes in between, or amid one of these outputs.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

struct state {
	__u64 outer, inner; // numbers of the next
	__u64 busy;         // an output is under way
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

struct event {
	__u64 number;
	__u32 interrupt;
	__u32 amid; // it has interrupted an output
};

SEC("raw_tp")
int outer(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 zero = 0;
	struct state *s = bpf_map_lookup_elem(&states, &zero);

	if (!s)
		return -22;
	for (int n = 0; n < 64; n++) {
		struct event e = {.number = s->outer++};

		*(volatile __u64 *)&s->busy = 1;
		if (bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &e, sizeof(e)))
			return -1;
		*(volatile __u64 *)&s->busy = 0;
	}
	return 0;
}

SEC("perf_event")
int inner(void *ctx)
{
	__u32 zero = 0;
	struct state *s = bpf_map_lookup_elem(&states, &zero);

	if (s) {
		struct event e = {.number = s->inner++, .interrupt = 1, .amid = *(volatile __u64 *)&s->busy};

		bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &e, sizeof(e));
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
