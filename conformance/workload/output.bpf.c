//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs events that can be accounted for, to a perf event array or to a ring buffer. Linux 5.10 loads it: it has neither bpf_loop
// nor a fetching atomic.
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

#define MAX_SIZE (1 << 17) // largest payload, bytes
#define MAX_COUNT 512      // most events per run
#define WORDS 512          // where in the pattern a payload may begin
#define LOAD_SIZE 64       // payload bytes of the programs on events

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); // user space sets it before it loads
} ringbuf SEC(".maps");

// Programs that interrupt each other on a CPU count in lanes of their own.
enum { LANE_RUN, LANE_SYSCALL, LANE_TIMER, LANES };

struct counts {
	__u64 attempted;
	__u64 nospace; // refused, as the ring was full: ENOSPC, or EAGAIN of a ring buffer
	__u64 noentry; // refused, as there is no ring: ENOENT, E2BIG, EOPNOTSUPP
	__u64 failed;  // refused for another reason
	__s64 error;   // of the last one that failed
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LANES);
	__type(key, __u32);
	__type(value, struct counts);
} counts SEC(".maps");

struct words {
	__u64 words[WORDS + MAX_SIZE / 8]; // a fixed pattern, which user space sets
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY); // one for each CPU; user space sets how many
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct words);
} patterns SEC(".maps");

const volatile __u64 syscall_number; // the system call at whose entry on_syscall outputs

struct args {
	__u64 count; // events to output, at most MAX_COUNT
	__u64 size;  // payload bytes, at most MAX_SIZE
};

// The first words of a payload: number on this CPU and lane, with the lane in its top byte; CPU << 32 | size; time.
// The rest is the pattern from word (number & 511) + 3 on.
static __always_inline __u64 number(struct counts *c, __u64 lane)
{
	return lane << 56 | c->attempted++;
}

static __always_inline void count(struct counts *c, long error)
{
	if (!error)
		return;
	c->error = error;
	if (error == -28 || error == -11) // ENOSPC, EAGAIN
		c->nospace++;
	else if (error == -2 || error == -7 || error == -95) // ENOENT, E2BIG, EOPNOTSUPP
		c->noentry++;
	else
		c->failed++;
}

static __always_inline int run(struct bpf_raw_tracepoint_args *ctx, int to_ringbuf)
{
	__u64 n = ctx->args[0], size = ctx->args[1];
	__u32 lane = LANE_RUN, cpu = bpf_get_smp_processor_id();
	struct counts *c = bpf_map_lookup_elem(&counts, &lane);
	struct words *p = bpf_map_lookup_elem(&patterns, &cpu);

	if (!c || !p || size > MAX_SIZE || n > MAX_COUNT)
		return -22;
	for (__u32 i = 0; i < MAX_COUNT; i++) {
		if (i >= n)
			break;
		__u64 seq = number(c, LANE_RUN);
		__u64 *w = &p->words[seq & (WORDS - 1)];
		__u64 w0 = w[0], w1 = w[1], w2 = w[2];

		w[0] = seq;
		w[1] = size | (__u64)cpu << 32;
		w[2] = bpf_ktime_get_ns();
		// Checked anew, in a register: before about Linux 6.3 the verifier forgets the bounds of what lay on the stack.
		__u64 bytes = size;
		barrier_var(bytes);
		if (bytes > MAX_SIZE)
			return -22;
		if (to_ringbuf)
			count(c, bpf_ringbuf_output(&ringbuf, w, bytes, 0));
		else
			count(c, bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, w, bytes));
		w[0] = w0;
		w[1] = w1;
		w[2] = w2;
	}
	return 0;
}

SEC("raw_tp")
int run_perf(struct bpf_raw_tracepoint_args *ctx) { return run(ctx, 0); }

SEC("raw_tp")
int run_ringbuf(struct bpf_raw_tracepoint_args *ctx) { return run(ctx, 1); }

// Fills a payload of a fixed size on the stack. The pattern's words are (index + 1) * the golden ratio.
static __always_inline struct counts *fill(__u64 *w, __u32 lane)
{
	struct counts *c = bpf_map_lookup_elem(&counts, &lane);

	if (!c)
		return 0;
	__u64 seq = number(c, lane);
	w[0] = seq;
	w[1] = LOAD_SIZE | (__u64)bpf_get_smp_processor_id() << 32;
	for (int i = 3; i < LOAD_SIZE / 8; i++)
		w[i] = ((seq & (WORDS - 1)) + i + 1) * 0x9E3779B97F4A7C15ull;
	w[2] = bpf_ktime_get_ns();
	return c;
}

SEC("raw_tp/sys_enter")
int on_syscall_perf(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 w[LOAD_SIZE / 8];

	if (ctx->args[1] != syscall_number)
		return 0;
	struct counts *c = fill(w, LANE_SYSCALL);
	if (c)
		count(c, bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, w, sizeof(w)));
	return 0;
}

SEC("raw_tp/sys_enter")
int on_syscall_ringbuf(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 w[LOAD_SIZE / 8];

	if (ctx->args[1] != syscall_number)
		return 0;
	struct counts *c = fill(w, LANE_SYSCALL);
	if (c)
		count(c, bpf_ringbuf_output(&ringbuf, w, sizeof(w), 0));
	return 0;
}

SEC("perf_event")
int on_timer_perf(struct bpf_perf_event_data *ctx)
{
	__u64 w[LOAD_SIZE / 8];
	struct counts *c = fill(w, LANE_TIMER);

	if (c)
		count(c, bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, w, sizeof(w)));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
