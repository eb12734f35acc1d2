//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs events on whatever CPU it is run on, to a perf event array or to a ring buffer, and counts
// and times what it did. Run it with BPF_PROG_TEST_RUN: the context is args below.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAX_SIZE 8192  // largest payload, bytes
#define MAX_COUNT 1024 // most events per run

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); // user space sets it before it loads
} ringbuf SEC(".maps");

struct state {
	__u64 attempted; // outputs tried on this CPU
	__u64 failed;    // of these, refused
	__u64 ns;        // time that all of them took
	__u64 words[MAX_SIZE / 8]; // the payload
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

struct args {
	__u64 count; // events to output, at most MAX_COUNT
	__u64 size;  // payload bytes, 8 to MAX_SIZE
};

// The payload begins with the time. Reading the clock is part of what is timed, as it is part of most programs.
static __always_inline int run(struct bpf_raw_tracepoint_args *ctx, int to_ringbuf)
{
	__u64 count = ctx->args[0], size = ctx->args[1];
	__u32 zero = 0;
	struct state *s = bpf_map_lookup_elem(&states, &zero);

	if (!s || size < 8 || size > MAX_SIZE || count > MAX_COUNT)
		return -22;
	__u64 begin = bpf_ktime_get_ns();
	for (__u32 n = 0; n < MAX_COUNT; n++) {
		if (n >= count)
			break;
		s->words[0] = bpf_ktime_get_ns();
		// Checked anew, in a register: before about Linux 6.3 the verifier forgets the bounds of what lay on the stack.
		__u64 bytes = size;
		barrier_var(bytes);
		if (bytes > MAX_SIZE)
			return -22;
		long err = to_ringbuf ? bpf_ringbuf_output(&ringbuf, s->words, bytes, 0) :
			bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, s->words, bytes);
		if (err)
			s->failed++;
	}
	s->ns += bpf_ktime_get_ns() - begin;
	s->attempted += count;
	return 0;
}

SEC("raw_tp")
int emit(struct bpf_raw_tracepoint_args *ctx)
{
	return run(ctx, 0);
}

SEC("raw_tp")
int emit_ringbuf(struct bpf_raw_tracepoint_args *ctx)
{
	return run(ctx, 1);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
