//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs with perfbuf_output.h in three lanes, and counts the results by itself, for tests of the header's counts.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../../bpf/perfbuf_output.h"

#define MAX_SIZE (1 << 17) // largest payload, bytes
#define MAX_ERROR 256
#define LANES 3
#define MAX_COUNT 512 // most outputs of a test run

PERFBUF_LANES(lanes, LANES);

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[MAX_SIZE / 8]);
} payload SEC(".maps");

struct state {
	__u64 results[LANES][MAX_ERROR]; // of outputs on this CPU, by errno
	__u64 nesting;            // the thread within whose output the programs nest0 to nest3 are to output
	__u64 nested;             // and have done so that often
	__u64 faulting;           // four times the thread in whose fault the program faulty is to fault, plus 1; it is doing so: plus 2
	__u64 faults;             // and has run that often
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

static __always_inline struct state *state(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&states, &zero);
}

// Another thread may have the CPU meanwhile, and output or fault as well. The idle one has the number 0.
static __always_inline __u64 thread(void)
{
	return (__u32)bpf_get_current_pid_tgid() + 1ULL;
}

// An addition in one piece, as programs interrupt each other.
static __always_inline void note(struct state *s, __u64 lane, long ret)
{
	__u64 error = -ret;

	if (error < MAX_ERROR && lane < LANES)
		__sync_fetch_and_add(&s->results[lane][error], 1);
}

struct args {
	__u64 size;    // payload bytes
	__u64 nesting; // whether the programs nest0 to nest3 take part
	__u64 lane;
};

// Outputs once, and returns the result.
SEC("raw_tp")
int output(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 size = ctx->args[0], lane = ctx->args[2];
	__u32 zero = 0;
	void *bytes = bpf_map_lookup_elem(&payload, &zero);
	struct state *s = state();
	long ret;

	if (!s || !bytes || size > MAX_SIZE)
		return -22;
	s->nesting = ctx->args[1] ? thread() : 0;
	ret = perfbuf_output(ctx, &events, &lanes, lane, bytes, size);
	s->nesting = 0;
	note(s, lane, ret);
	return ret;
}

__noinline int flood_once(struct bpf_raw_tracepoint_args *ctx, __u64 size, __u64 n, __u64 important)
{
	__u64 lane = n < important ? 2 : n & 1;
	__u32 zero = 0;
	void *bytes = bpf_map_lookup_elem(&payload, &zero);
	struct state *s = state();

	if (!s || !bytes || size > MAX_SIZE)
		return -22;
	note(s, lane, perfbuf_output(ctx, &events, &lanes, lane, bytes, size));
	return 0;
}

// Outputs often: first so many times in lane 2, then in lanes 0 and 1 in turn.
SEC("raw_tp")
int flood(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 size = ctx->args[0], count = ctx->args[1], important = ctx->args[2];

	for (__u32 n = 0; n < MAX_COUNT && n < count; n++)
		flood_once(ctx, size, n, important);
	return 0;
}

// These output in lane 2, whoever forks, execs or exits.
#define LIFE(name)                                                                          \
	SEC("?raw_tp/sched_process_" #name)                                                 \
	int on_##name(void *ctx)                                                            \
	{                                                                                   \
		struct state *s = state();                                                  \
		__u64 event[3] = {};                                                        \
                                                                                            \
		if (s)                                                                      \
			note(s, 2, perfbuf_output(ctx, &events, &lanes, 2, event, sizeof(event))); \
		return 0;                                                                   \
	}

LIFE(fork)
LIFE(exec)
LIFE(exit)

// Each of these outputs within an output, if it is not doing so already: the first within output's, the second within the first's
// and output's, and so on.
#define NEST(name)                                                     \
	SEC("?fentry/perf_output_begin")                               \
	int name(void *ctx)                                            \
	{                                                              \
		struct state *s = state();                             \
		__u64 word = 0;                                        \
                                                                       \
		if (!s || s->nesting != thread())                      \
			return 0;                                      \
		s->nested++;                                           \
		note(s, 0, perfbuf_output(ctx, &events, &lanes, 0, &word, sizeof(word))); \
		return 0;                                              \
	}

NEST(nest0)
NEST(nest1)
NEST(nest2)
NEST(nest3)

#define NOWHERE ((void *)0xfffffffffffff000) // x86 maps nothing there

// Faults once, and the fault runs faulty.
SEC("raw_tp")
int fault(void *ctx)
{
	struct state *s = state();
	__u64 word;

	if (!s)
		return -22;
	s->faulting = thread() << 2 | 1;
	bpf_probe_read_kernel(&word, sizeof(word), NOWHERE);
	s->faulting = 0;
	return 0;
}

// Faults itself. Kernels that do run a program within itself run this one twice for each fault.
SEC("raw_tp/page_fault_kernel")
int faulty(void *ctx)
{
	struct state *s = state();
	__u64 word;

	if (!s || s->faulting >> 2 != thread())
		return 0;
	s->faults++;
	if ((s->faulting & 3) == 1) {
		s->faulting++;
		bpf_probe_read_kernel(&word, sizeof(word), NOWHERE);
		s->faulting--;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
