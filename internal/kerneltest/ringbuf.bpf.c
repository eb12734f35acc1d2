//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs checkable events to BPF ring buffers, for tests: a shared one, and shards in an array and in a hash of maps. As emit.bpf.c does
// to perf event arrays, and with the same payloads.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../../bpf/perfbuf_ringbuf.h"

#define MAX_SIZE 4096 // largest payload, bytes; a power of two
#define MAX_COUNT 512 // most events per run
#define MAX_HUGE (1 << 17) // largest payload of output_huge

#define RINGBUF                             \
	__uint(type, BPF_MAP_TYPE_RINGBUF); \
	__uint(max_entries, 1 << 16)

struct shard {
	RINGBUF;
};

struct {
	RINGBUF;
} shared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); // by CPU
	__uint(max_entries, 8);
	__type(key, __u32);
	__array(values, struct shard);
} shards SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS); // by CPU / 2
	__uint(max_entries, 8);
	__type(key, __u64);
	__array(values, struct shard);
} groups SEC(".maps");

PERFBUF_RINGBUF_LOSSES(losses);

struct state {
	__u64 attempted; // outputs tried on this CPU
	__u64 failed;    // of these, refused
	__s64 error;     // what the last output returned
	__u64 discarded; // reserved, and discarded
	__u64 words[2 * MAX_SIZE / 8]; // a fixed pattern, which user space sets
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY); // for large outputs
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

static __always_inline struct state *state(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&states, &zero);
}

static __always_inline __u64 next_global(void)
{
	__u64 seq = *(volatile __u64 *)&global_seq; // in two steps: see emit.bpf.c

	__sync_fetch_and_add(&global_seq, 1);
	return seq;
}

static __always_inline void note(struct state *s, long ret)
{
	s->error = ret;
	if (ret)
		s->failed++;
}

struct args {
	__u64 count; // events to output, at most MAX_COUNT
	__u64 size;  // payload bytes, 32 to MAX_SIZE
	__u64 flags; // of bpf_ringbuf_output
	__u64 every; // of reserved records, discards each that many; 0: none
};

// A payload is a piece of the pattern that begins at word (number & 511), and whose first words are: number on this CPU;
// CPU << 32 | size; number over all CPUs; time, taken before.
#define EMIT(name, find)                                                                     \
	SEC("raw_tp")                                                                        \
	int name(struct bpf_raw_tracepoint_args *ctx)                                        \
	{                                                                                    \
		__u64 count = ctx->args[0], size = ctx->args[1], flags = ctx->args[2];       \
		struct state *s = state();                                                   \
                                                                                             \
		if (!s || size < 32 || size > MAX_SIZE || count > MAX_COUNT)                 \
			return -22;                                                          \
		for (__u32 n = 0; n < MAX_COUNT; n++) {                                      \
			if (n >= count)                                                      \
				break;                                                       \
			__u64 seq = s->attempted++;                                          \
			__u64 *w = &s->words[seq & (MAX_SIZE / 8 - 1)];                      \
			__u64 w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];                    \
			long ret = -2; /* ENOENT */                                          \
                                                                                             \
			w[0] = seq;                                                          \
			w[1] = (__u64)bpf_get_smp_processor_id() << 32 | size;               \
			w[2] = next_global();                                                \
			w[3] = bpf_ktime_get_ns();                                           \
			/* Checked anew, in a register: see emit.bpf.c. */                   \
			__u64 bytes = size;                                                  \
			barrier_var(bytes);                                                  \
			if (bytes > MAX_SIZE)                                                \
				return -22;                                                  \
			void *ringbuf = find;                                                \
			if (ringbuf)                                                         \
				ret = perfbuf_ringbuf_output(ringbuf, &losses, w, bytes, flags); \
			note(s, ret);                                                        \
			w[0] = w0;                                                           \
			w[1] = w1;                                                           \
			w[2] = w2;                                                           \
			w[3] = w3;                                                           \
		}                                                                            \
		return 0;                                                                    \
	}

static __always_inline void *shard(void)
{
	__u32 key = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&shards, &key);
}

static __always_inline void *group(void)
{
	__u64 key = bpf_get_smp_processor_id() / 2;

	return bpf_map_lookup_elem(&groups, &key);
}

EMIT(to_shared, &shared)
EMIT(to_shard, shard())
EMIT(to_group, group())

struct event {
	__u64 seq, size, global, time, pattern[4];
};

// A payload of emit's, of 64 bytes, of which the time is a stamp.
static __always_inline void fill(struct event *e, struct state *s, __u64 seq, __u64 global)
{
	__u64 *w = &s->words[seq & (MAX_SIZE / 8 - 1)];

	e->seq = seq;
	e->size = (__u64)bpf_get_smp_processor_id() << 32 | sizeof(*e);
	e->global = global;
	e->pattern[0] = w[4];
	e->pattern[1] = w[5];
	e->pattern[2] = w[6];
	e->pattern[3] = w[7];
}

// Reserves, stamps, and submits to the shared one.
SEC("raw_tp")
int stamped(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 count = ctx->args[0], flags = ctx->args[2], every = ctx->args[3];
	struct state *s = state();

	if (!s || count > MAX_COUNT)
		return -22;
	for (__u32 n = 0; n < MAX_COUNT; n++) {
		if (n >= count)
			break;
		__u64 seq = s->attempted++, global = next_global();
		struct event *e = perfbuf_ringbuf_reserve(&shared, &losses, struct event, time);

		note(s, e ? 0 : -11);
		if (!e)
			continue;
		fill(e, s, seq, global);
		if (every && seq % every == 0) {
			s->discarded++;
			bpf_ringbuf_discard(e, flags);
		} else {
			bpf_ringbuf_submit(e, flags);
		}
	}
	return 0;
}

// Outputs once, stamped, what it has made elsewhere.
SEC("raw_tp")
int stamped_copy(struct bpf_raw_tracepoint_args *ctx)
{
	struct state *s = state();
	struct event e = {};

	if (!s)
		return -22;
	__u64 seq = s->attempted++;

	fill(&e, s, seq, next_global());
	note(s, perfbuf_ringbuf_output_stamped(&shared, &losses, &e, time, ctx->args[2]));
	return s->error;
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
	return perfbuf_ringbuf_output(&shared, &losses, bytes, size, ctx->args[2]);
}

struct interrupts {
	__u64 attempted, failed;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct interrupts);
} interrupts SEC(".maps");

// Outputs once to the shared one, in a timer's interrupt.
SEC("?perf_event")
int interrupt(void *ctx)
{
	__u32 zero = 0;
	struct interrupts *i = bpf_map_lookup_elem(&interrupts, &zero);
	__u64 word = 0;

	if (!i)
		return 0;
	i->attempted++;
	if (perfbuf_ringbuf_output(&shared, &losses, &word, sizeof(word), 0))
		i->failed++;
	return 0;
}

struct hold_args {
	__u64 address; // of 8 bytes of the process
	__u64 discard;
};

// Reserves in the shared one, stamps, reads from the process, which may keep it waiting, and submits.
SEC("?syscall")
int hold(struct hold_args *ctx)
{
	struct state *s = state();
	__u64 seq, word;
	struct event *e;

	if (!s)
		return -22;
	seq = s->attempted++;
	e = perfbuf_ringbuf_reserve(&shared, &losses, struct event, time);
	note(s, e ? 0 : -11);
	if (!e)
		return -11;
	fill(e, s, seq, next_global());
	bpf_copy_from_user(&word, sizeof(word), (void *)ctx->address);
	if (ctx->discard) {
		s->discarded++;
		bpf_ringbuf_discard(e, 0);
	} else {
		bpf_ringbuf_submit(e, 0);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
