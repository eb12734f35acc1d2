//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs numbered, checkable events on whatever CPU it is run on, for tests.
// Run it with BPF_PROG_TEST_RUN: the context is args below. Linux 5.10 and later run it (test runs of raw_tp programs): it needs
// neither bpf_loop nor a fetching atomic.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAX_SIZE 4096 // largest payload, bytes; a power of two
#define MAX_COUNT 512 // most events per run
#define MAX_HUGE (1 << 17) // largest payload of output_huge

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY); // for tests of what happens with the wrong type
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} array SEC(".maps");

struct state {
	__u64 attempted; // outputs tried on this CPU
	__u64 failed;    // of these, refused
	__s64 error;     // what the last output returned
	__u64 unused;    // as ringbuf.bpf.c's
	__u64 words[2 * MAX_SIZE / 8]; // a fixed pattern, which user space sets
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY); // for outputs larger than a record can be
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[MAX_HUGE / 8]);
} huge SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

__u64 global_seq; // one more than the last number given to an event, over all CPUs

struct args {
	__u64 count; // events to output, at most MAX_COUNT
	__u64 size;  // payload bytes, 24 to MAX_SIZE
};

// A payload is a piece of the pattern that begins at word (number & 511), so that no two in a row are alike, and whose first
// words are: number on this CPU; CPU << 32 | size; number over all CPUs.
SEC("raw_tp")
int emit(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 count = ctx->args[0], size = ctx->args[1];
	__u32 zero = 0;
	struct state *s = bpf_map_lookup_elem(&states, &zero);

	if (!s || size < 24 || size > MAX_SIZE || count > MAX_COUNT)
		return -22;
	for (__u32 n = 0; n < MAX_COUNT; n++) {
		if (n >= count)
			break;
		__u64 seq = s->attempted++;
		__u64 *w = &s->words[seq & (MAX_SIZE / 8 - 1)];
		__u64 w0 = w[0], w1 = w[1], w2 = w[2];

		w[0] = seq;
		w[1] = (__u64)bpf_get_smp_processor_id() << 32 | size;
		// Two steps, as fetching atomics need Linux 5.12: CPUs at the same time may give a number twice, but none gets lost.
		w[2] = *(volatile __u64 *)&global_seq;
		__sync_fetch_and_add(&global_seq, 1);
		// Checked anew, in a register: before about Linux 6.3 the verifier forgets the bounds of what lay on the stack.
		__u64 bytes = size;
		barrier_var(bytes);
		if (bytes > MAX_SIZE)
			return -22;
		s->error = bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, w, bytes);
		if (s->error)
			s->failed++;
		w[0] = w0;
		w[1] = w1;
		w[2] = w2;
	}
	return 0;
}

// Outputs once, as many bytes as asked for, unnumbered.
SEC("raw_tp")
int output_huge(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 size = ctx->args[1];
	__u32 zero = 0;
	void *bytes = bpf_map_lookup_elem(&huge, &zero);

	if (!bytes || size > MAX_HUGE)
		return -22;
	return bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, bytes, size);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
