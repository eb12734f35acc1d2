//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs checkable events to perf event arrays and BPF ring buffers, and counts what becomes of
// each output: from test runs, which reach any CPU, and from system calls, the scheduler, softirqs
// and timers, which interrupt each other. Linux 5.10 and later run it.
//
// An event is identified by its CPU, its level of nesting there, and its number on that level. A
// number over all CPUs would take a fetching atomic (Linux 5.12).
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../../bpf/perfbuf_output.h"
#include "../../bpf/perfbuf_ringbuf.h"

#define LEVELS 8            // more than programs can nest: task, softirq, hardirq, NMI
#define PATTERN 64          // places in the pattern where a payload can begin; a power of two
#define CHECKED 32          // bytes of the header, with its checksum
#define MAX_SIZE (1 << 17)  // largest payload of a test run, bytes
#define MAX_TRACED (CHECKED + 511)
#define MAX_COUNT 512       // most events of a test run
#define K 0x9E3779B97F4A7C15ULL
#define MAGIC 0x72696e67666f6c64ULL

#define E2BIG 7
#define ENOENT 2
#define EAGAIN 11
#define EBUSY 16
#define EINVAL 22
#define ENOSPC 28
#define EOPNOTSUPP 95

struct task_struct {
	int tgid;
} __attribute__((preserve_access_index));

#define PERF_EVENTS                                   \
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);  \
	__uint(key_size, sizeof(__u32));              \
	__uint(value_size, sizeof(__u32))

struct {
	PERF_EVENTS;
} events SEC(".maps");

struct {
	PERF_EVENTS;
} more SEC(".maps");

struct ringbuf {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16); // pages are a power of two of bytes; user space may set another
};

struct ringbuf shared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); // by CPU
	__uint(max_entries, 8);
	__type(key, __u32);
	__array(values, struct ringbuf);
} shards SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS); // by CPU / 2
	__uint(max_entries, 8);
	__type(key, __u64);
	__array(values, struct ringbuf);
} groups SEC(".maps");

PERFBUF_LANES(shared_lanes, 1);
PERFBUF_LANES(shards_lanes, 1); // of shards and groups

PERFBUF_LANES(lanes, 2); // of events, for the program laned, and for outputs to LANE0 and LANE1

// SPREAD sends number n to map n mod 4. LANE0 and LANE1 are the lanes of events.
enum map { EVENTS, MORE, SHARED, SHARDS, GROUPS, MAPS, SPREAD = MAPS, LANE0, LANE1 };

// Which maps there are, a bit each, and LANE0's if events has lanes. The verifier leaves out the
// code of others.
const volatile __u32 maps = (1 << MAPS) - 1;

// Whether payloads' times are of CLOCK_BOOTTIME.
const volatile __u8 boot_time;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY); // for tests that need a map of another type
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} array SEC(".maps");

// COPY is stamped by the output itself: the checksum leaves out its time.
enum source { SYSCALL = 1, SWITCH, WAKEUP, SOFTIRQ, TIMER, HRTIMER, BURST, RUN, TICK, COPY, SOURCES };

// What one level of nesting has for its own: a program that interrupts it uses the next one, and is
// done before it goes on. So plain counting is exact.
struct slot {
	__u64 attempted, written;
	__u64 full;   // ENOSPC, or EAGAIN of a ring buffer, also for a lock that an NMI has not got
	__u64 busy;   // EBUSY
	__u64 noring; // ENOENT, or E2BIG: the map has no entry for this CPU
	__u64 off;    // EOPNOTSUPP: the ring's perf event is off, since the CPU was
	__u64 other;
	__u64 shed;      // ECANCELED
	__u64 discarded; // of those written
	__u64 last;      // number of the latest that was written, and one
	__s64 error;     // what the last output returned
	__s64 strange;   // what the last of the others returned
	struct { __u64 written, full, shed; } to[8]; // by map
	__u64 sources[SOURCES]; // attempted by each
	__u64 words[PATTERN + (MAX_TRACED + 7) / 8]; // a fixed pattern, which user space sets
};

struct cpu {
	__u32 level; // slots in use
	__u32 unused;
	__u64 deep; // runs that found no slot, and output nothing
	__u64 ns;   // time that test runs took
	struct slot slots[LEVELS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct words {
	__u64 words[PATTERN + MAX_SIZE / 8]; // the pattern
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY); // one for each CPU; user space sets how many
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct words);
} patterns SEC(".maps");

// The process that reads. What it does itself is not traced, or every event would cause others.
// Interrupts have no owner: those that it causes are traced, and bounded by how often it waits.
__u32 reader;

// Where programs on events output to.
__u32 target;

// The only system call whose entry outputs, or ANY.
#define ANY (~0ULL)
const volatile __u64 syscall_number = ANY;

static __always_inline struct cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

// Takes a slot. A program that interrupts this between its two accesses takes the same one, and has
// left it when this goes on.
static __always_inline struct slot *enter(struct cpu *c, __u32 *level)
{
	__u32 l = *(volatile __u32 *)&c->level;

	if (l >= LEVELS) {
		__sync_fetch_and_add(&c->deep, 1);
		return 0;
	}
	*(volatile __u32 *)&c->level = l + 1;
	barrier();
	*level = l;
	return &c->slots[l];
}

static __always_inline void leave(struct cpu *c, __u32 level)
{
	barrier();
	*(volatile __u32 *)&c->level = level;
}

static __always_inline __u64 next(struct slot *s, enum source source)
{
	s->sources[source]++;
	return s->attempted++;
}

static __always_inline void note(struct slot *s, __u32 to, __u64 seq, long ret)
{
	s->error = ret;
	barrier_var(to); // the compiler knows, and the verifier does not
	to &= 7;
	switch (ret) {
	case 0: s->written++; s->to[to].written++; s->last = seq + 1; break;
	case -EAGAIN:
	case -ENOSPC: s->full++; s->to[to].full++; break;
	case -PERFBUF_ESHED: s->shed++; s->to[to].shed++; break;
	case -EBUSY: s->busy++; break;
	case -E2BIG:
	case -ENOENT: s->noring++; break;
	case -EOPNOTSUPP: s->off++; break;
	default: s->other++; s->strange = ret;
	}
}

static __always_inline __u64 mix(__u64 sum, __u64 word)
{
	sum = (sum + word) * K;
	return sum ^ sum >> 32;
}

// Of a payload's header: number; CPU, source, level and size; time; and a checksum of those three.
static __always_inline __u64 shape(__u32 level, enum source source, __u64 size)
{
	return (__u64)bpf_get_smp_processor_id() << 32 | (__u64)source << 24 | (__u64)level << 20 | size;
}

static __always_inline void head(__u64 *w, __u64 seq, __u64 shape)
{
	w[0] = seq;
	w[1] = shape;
	w[2] = boot_time ? bpf_ktime_get_boot_ns() : bpf_ktime_get_ns();
	w[3] = mix(mix(mix(MAGIC, w[0]), w[1]), w[2]);
}

// What send and its likes know of the size, which the verifier before about Linux 6.3 forgets of
// what lay on the stack. So it is checked in a register, where it is used.
#define CHECK(size, most)            \
	({                           \
		barrier_var(size);   \
		if (size > most)     \
			return -EINVAL; \
	})

static __always_inline long to_array(void *ctx, void *array, void *w, __u64 size, __u64 most)
{
	CHECK(size, most);
	return bpf_perf_event_output(ctx, array, BPF_F_CURRENT_CPU, w, size);
}

static __always_inline long to_lane(void *ctx, __u64 lane, void *w, __u64 size, __u64 most)
{
	CHECK(size, most);
	return perfbuf_output(ctx, &events, &lanes, lane, w, size);
}

static __always_inline long to_ringbuf(void *ringbuf, void *lanes, void *w, __u64 size, __u64 most, __u64 flags)
{
	if (!ringbuf)
		return -ENOENT;
	CHECK(size, most);
	return perfbuf_ringbuf_output_to(ringbuf, lanes, 1, 0, w, size, flags);
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

static __always_inline long send(void *ctx, __u32 to, void *w, __u64 size, __u64 most, __u64 flags)
{
	if (to == EVENTS && maps & 1 << EVENTS)
		return to_array(ctx, &events, w, size, most);
	if (to == MORE && maps & 1 << MORE)
		return to_array(ctx, &more, w, size, most);
	if (to == SHARED && maps & 1 << SHARED)
		return to_ringbuf(&shared, &shared_lanes, w, size, most, flags);
	if (to == SHARDS && maps & 1 << SHARDS)
		return to_ringbuf(shard(), &shards_lanes, w, size, most, flags);
	if (to == GROUPS && maps & 1 << GROUPS)
		return to_ringbuf(group(), &shards_lanes, w, size, most, flags);
	if ((to == LANE0 || to == LANE1) && maps & 1 << LANE0)
		return to_lane(ctx, to - LANE0, w, size, most);
	return -EINVAL;
}

// Outputs a piece of the pattern that begins at word (number mod PATTERN), with a header in it.
static __always_inline void output(void *ctx, struct cpu *c, enum source source, __u64 *words, __u64 size,
				   __u64 most, __u32 to, __u64 flags)
{
	__u32 level;
	struct slot *s = enter(c, &level);

	if (!s)
		return;
	if (!words) // programs that interrupt each other have different ones
		words = s->words;
	__u64 seq = next(s, source);
	__u64 *w = &words[seq & (PATTERN - 1)];
	__u64 w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];

	if (source != RUN) // most are small, every eighth may be large
		size = CHECKED + (seq * K >> (seq & 7 ? 58 : 55));
	if (to == SPREAD)
		to = seq & 3;
	head(w, seq, shape(level, source, size));
	note(s, to, seq, send(ctx, to, w, size, most, flags));
	w[0] = w0;
	w[1] = w1;
	w[2] = w2;
	w[3] = w3;
	leave(c, level);
}

struct args {
	__u64 count; // events to output, at most MAX_COUNT
	__u64 size;  // payload bytes, at most MAX_SIZE
	__u64 to;    // which map
	__u64 flags; // of bpf_ringbuf_output
	__u64 every; // of stamped records, discards each that many; 0: none
};

// One output of run. The verifier looks at a global function once, not in each round of the loop.
__noinline int run_once(struct bpf_raw_tracepoint_args *ctx, __u64 size, __u64 to, __u64 flags)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct words *p = bpf_map_lookup_elem(&patterns, &cpu);
	struct cpu *c = this_cpu();

	if (!c || !p || size > MAX_SIZE)
		return -EINVAL;
	output(ctx, c, RUN, p->words, size, MAX_SIZE, to, flags);
	return 0;
}

// Outputs from a test run. Two of these must not nest on a CPU: they use the same large payload.
SEC("?raw_tp")
int run(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 count = ctx->args[0], size = ctx->args[1], to = ctx->args[2], flags = ctx->args[3];
	struct cpu *c = this_cpu();

	if (!c || size > MAX_SIZE || count > MAX_COUNT)
		return -EINVAL;
	__u64 begin = bpf_ktime_get_ns();
	for (__u32 n = 0; n < MAX_COUNT; n++) {
		if (n >= count)
			break;
		run_once(ctx, size, to, flags);
	}
	c->ns += bpf_ktime_get_ns() - begin;
	return 0;
}

// Outputs the pattern itself once, without a number, and uncounted. Returns what that did.
SEC("?raw_tp")
int bare(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct words *p = bpf_map_lookup_elem(&patterns, &cpu);

	return p ? send(ctx, ctx->args[2], p->words, ctx->args[1], MAX_SIZE, ctx->args[3]) : -EINVAL;
}

// An event that is filled in in the ring buffer.
struct event {
	__u64 seq, shape, time, sum, pattern[4];
};

static __always_inline void fill(struct event *e, struct slot *s, __u64 seq, __u32 level, enum source source)
{
	__u64 *w = &s->words[seq & (PATTERN - 1)];

	e->seq = seq;
	e->shape = shape(level, source, sizeof(*e));
	e->sum = mix(mix(mix(MAGIC, e->seq), e->shape), source == COPY ? 0 : e->time);
	e->pattern[0] = w[4];
	e->pattern[1] = w[5];
	e->pattern[2] = w[6];
	e->pattern[3] = w[7];
}

// Reserves and stamps in the shared one. It returns the record and its slot, which it has left.
static __always_inline struct event *reserve(struct cpu *c, struct slot **slot, __u64 *number)
{
	__u32 level;
	struct slot *s = enter(c, &level);
	struct event *e;
	__u64 seq;

	if (!s)
		return 0;
	seq = next(s, RUN);
	e = perfbuf_ringbuf_reserve(&shared, &shared_lanes, 0, struct event, time);
	note(s, SHARED, seq, e ? 0 : -EAGAIN);
	if (e)
		fill(e, s, seq, level, RUN);
	leave(c, level);
	*slot = s;
	*number = seq;
	return e;
}

__noinline int stamp_once(__u64 flags, __u64 every)
{
	struct cpu *c = this_cpu();
	struct slot *s;
	struct event *e;
	__u64 seq;

	if (!c)
		return -EINVAL;
	e = reserve(c, &s, &seq);
	if (!e)
		return -EAGAIN;
	if (every && seq % every == 0) {
		s->discarded++;
		bpf_ringbuf_discard(e, flags);
	} else {
		bpf_ringbuf_submit(e, flags);
	}
	return 0;
}

// Reserves, stamps, and submits or discards.
SEC("?raw_tp")
int stamped(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 count = ctx->args[0], flags = ctx->args[3], every = ctx->args[4];

	if (count > MAX_COUNT)
		return -EINVAL;
	for (__u32 n = 0; n < MAX_COUNT; n++) {
		if (n >= count)
			break;
		stamp_once(flags, every);
	}
	return 0;
}

// Outputs once to the shared one, stamped, what it has made elsewhere.
SEC("?raw_tp")
int stamped_copy(struct bpf_raw_tracepoint_args *ctx)
{
	struct cpu *c = this_cpu();
	struct event e = {};
	__u32 level;
	__u64 seq;
	long ret;

	if (!c)
		return -EINVAL;
	struct slot *s = enter(c, &level);
	if (!s)
		return -EINVAL;
	seq = next(s, COPY);
	fill(&e, s, seq, level, COPY);
	ret = perfbuf_ringbuf_output_stamped(&shared, &shared_lanes, 0, &e, time, ctx->args[3]);
	note(s, SHARED, seq, ret);
	leave(c, level);
	return ret;
}

struct hold_args {
	__u64 address; // of 8 bytes of the process
	__u64 discard;
};

// Reserves in the shared one, stamps, reads from the process, which may keep it waiting, and submits.
SEC("?syscall")
int hold(struct hold_args *ctx)
{
	struct cpu *c = this_cpu();
	struct slot *s;
	struct event *e;
	__u64 seq, word;

	if (!c)
		return -EINVAL;
	e = reserve(c, &s, &seq);
	if (!e)
		return -EAGAIN;
	bpf_copy_from_user(&word, sizeof(word), (void *)ctx->address);
	if (ctx->discard) {
		s->discarded++;
		bpf_ringbuf_discard(e, 0);
	} else {
		bpf_ringbuf_submit(e, 0);
	}
	return 0;
}

struct control_args {
	__u64 to;    // where programs on events output to from now on
	__u64 adopt; // whether this process, as the kernel knows it, is the reader
};

SEC("?raw_tp")
int control(struct bpf_raw_tracepoint_args *ctx)
{
	target = ctx->args[0];
	if (ctx->args[1])
		reader = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

static __always_inline void trace(void *ctx, enum source source)
{
	struct cpu *c = this_cpu();

	if (c)
		output(ctx, c, source, 0, 0, MAX_TRACED, *(volatile __u32 *)&target, 0);
}

static __always_inline int by_reader(void)
{
	return bpf_get_current_pid_tgid() >> 32 == reader;
}

__noinline int burst_once(struct bpf_raw_tracepoint_args *ctx)
{
	trace(ctx, BURST);
	return 0;
}

// From a test run, what programs on events output.
SEC("?raw_tp")
int burst(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 count = ctx->args[0];

	for (__u32 n = 0; n < MAX_COUNT; n++) {
		if (n >= count)
			break;
		burst_once(ctx);
	}
	return 0;
}

SEC("?raw_tp/sys_enter")
int on_syscall(struct bpf_raw_tracepoint_args *ctx)
{
	if (syscall_number != ANY ? ctx->args[1] == syscall_number : !by_reader())
		trace(ctx, SYSCALL);
	return 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (prev->tgid != reader && next->tgid != reader)
		trace(ctx, SWITCH);
	return 0;
}

SEC("?tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	if (task->tgid != reader && !by_reader())
		trace(ctx, WAKEUP);
	return 0;
}

SEC("?raw_tp/softirq_entry")
int on_softirq(void *ctx)
{
	trace(ctx, SOFTIRQ);
	return 0;
}

SEC("?raw_tp/timer_expire_entry")
int on_timer(void *ctx)
{
	trace(ctx, TIMER);
	return 0;
}

SEC("?raw_tp/hrtimer_expire_entry")
int on_hrtimer(void *ctx)
{
	trace(ctx, HRTIMER);
	return 0;
}

// In the interrupt of a timer of user space.
SEC("?perf_event")
int on_tick(void *ctx)
{
	trace(ctx, TICK);
	return 0;
}

__noinline int laned_once(struct bpf_raw_tracepoint_args *ctx, __u64 how)
{
	__u64 event[7] = {};

	if (how == 0)
		return bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, event, sizeof(event));
	return perfbuf_output(ctx, &events, &lanes, how - 1, event, sizeof(event));
}

// Outputs 56 bytes each to events, not counted as by the others: first so many times in lane 1, then in lane 0; or, if the last
// argument says so, without lanes. It returns how long that took, in ns.
SEC("?raw_tp")
int laned(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 count = ctx->args[0], important = ctx->args[1], plain = ctx->args[2], begin = bpf_ktime_get_ns();

	for (__u32 n = 0; n < MAX_COUNT && n < important; n++)
		laned_once(ctx, 2);
	for (__u32 n = 0; n < MAX_COUNT && n < count; n++)
		laned_once(ctx, !plain);
	return bpf_ktime_get_ns() - begin;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
