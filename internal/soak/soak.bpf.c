//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs checkable events from contexts that interrupt each other: system calls, the scheduler,
// softirqs, timers, and test runs, which reach other CPUs by interrupt. Linux 5.10 and later run it.
//
// The identity of an event is CPU, nesting level on it, and number within that level. A number over
// all CPUs would take a fetching atomic (Linux 5.12).
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../../bpf/perfbuf_ringbuf.h"

#define LEVELS 8 // more than programs can nest: task, softirq, hardirq, NMI
#define PATTERN 64 // places in the pattern where a payload can begin; a power of two
#define MIN_SIZE 32 // the words of the header
#define MAX_SIZE (MIN_SIZE + 511)
#define MAX_COUNT 512 // most events of a burst
#define WORDS (PATTERN + (MAX_SIZE + 7) / 8)
#define K 0x9E3779B97F4A7C15ULL

#define ENOENT 2
#define EAGAIN 11
#define EBUSY 16
#define ENOSPC 28
#define EOPNOTSUPP 95

struct task_struct {
	int tgid;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

// Of -mode sources, besides events: another array, a ring buffer that all CPUs share, and one for each CPU.
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} more SEC(".maps");

struct ringbuf {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
};

struct ringbuf shared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PERFBUF_RINGBUF_CPUS);
	__type(key, __u32);
	__array(values, struct ringbuf);
} shards SEC(".maps");

PERFBUF_RINGBUF_LOSSES(shared_losses);
PERFBUF_RINGBUF_LOSSES(shards_losses);

#define MAPS 4

// What one level of nesting has for its own: whoever interrupts it uses the next one, and is done
// before it goes on. So plain counting is exact.
struct slot {
	__u64 attempted, ok, enospc, ebusy, enoent;
	__u64 off; // EOPNOTSUPP: the ring's perf event is off, since the CPU was
	__u64 other;
	__u64 last; // number of the latest that succeeded, and one
	struct { __u64 ok, enospc; } to[MAPS]; // of these, by map
	__u64 words[WORDS]; // a fixed pattern, which user space sets
};

struct cpu {
	__u32 level; // slots in use
	__u32 unused;
	__u64 deep; // runs that found no slot, and output nothing
	struct slot slots[LEVELS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

enum source { SYSCALL = 1, SWITCH, WAKEUP, SOFTIRQ, TIMER, HRTIMER, BURST };

// The process that reads. What it does itself is not traced, or every event would cause others.
// Interrupts have no owner: those that it causes are traced, and bounded by how often it waits.
__u32 reader;

// Whether outputs go to all maps, by their number, or to events alone.
__u32 spread;

static __always_inline long to_ringbuf(void *ringbuf, void *losses, void *w, __u64 size)
{
	struct perfbuf_ringbuf_losses *l = perfbuf_ringbuf_begin(losses);
	long ret;

	// Checked in a register, as below.
	barrier_var(size);
	if (size < MIN_SIZE || size > MAX_SIZE)
		return -1;
	ret = bpf_ringbuf_output(ringbuf, w, size, 0);
	if (ret)
		perfbuf_ringbuf_fail(l);
	return ret;
}

static __always_inline long to_shard(void *w, __u64 size)
{
	__u32 cpu = bpf_get_smp_processor_id();
	void *shard = bpf_map_lookup_elem(&shards, &cpu);

	return shard ? to_ringbuf(shard, &shards_losses, w, size) : -ENOENT;
}

static __always_inline long to_array(void *ctx, void *array, void *w, __u64 size)
{
	// Checked in a register: before about Linux 6.3 the verifier forgets bounds of what lay on the stack.
	barrier_var(size);
	if (size < MIN_SIZE || size > MAX_SIZE)
		return -1;
	return bpf_perf_event_output(ctx, array, BPF_F_CURRENT_CPU, w, size);
}

static __always_inline __u64 mix(__u64 sum, __u64 word)
{
	sum = (sum + word) * K;
	return sum ^ sum >> 32;
}

// A payload is the pattern from a place on that depends on the number. Its first words are number;
// CPU, level, source and size; time; and a sum of those three.
static __always_inline void output(void *ctx, enum source source)
{
	__u32 zero = 0;
	struct cpu *c = bpf_map_lookup_elem(&cpus, &zero);

	if (!c)
		return;
	// Whoever interrupts between these two takes the same slot, and has left it when we enter.
	__u32 level = *(volatile __u32 *)&c->level;
	if (level >= LEVELS) {
		__sync_fetch_and_add(&c->deep, 1);
		return;
	}
	struct slot *s = &c->slots[level];
	*(volatile __u32 *)&c->level = level + 1;
	barrier();

	__u64 seq = s->attempted++;
	__u64 *w = &s->words[seq & (PATTERN - 1)];
	__u64 w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
	// Most are small, every eighth may be large.
	__u64 size = MIN_SIZE + (seq * K >> (seq & 7 ? 58 : 55));

	w[0] = seq;
	w[1] = (__u64)bpf_get_smp_processor_id() << 32 | (__u64)level << 24 | (__u64)source << 16 | size;
	w[2] = bpf_ktime_get_ns();
	w[3] = mix(mix(mix(0, w[0]), w[1]), w[2]);
	__u32 to = *(volatile __u32 *)&spread ? seq & (MAPS - 1) : 0;
	long ret;

	switch (to) {
	case 1: ret = to_array(ctx, &more, w, size); break;
	case 2: ret = to_ringbuf(&shared, &shared_losses, w, size); break;
	case 3: ret = to_shard(w, size); break;
	default: ret = to_array(ctx, &events, w, size);
	}
	to &= MAPS - 1;
	switch (ret) {
	case 0: s->ok++; s->to[to].ok++; s->last = seq + 1; break;
	case -EAGAIN: // a ring buffer that is full, or whose lock an NMI has not got
	case -ENOSPC: s->enospc++; s->to[to].enospc++; break;
	case -EBUSY: s->ebusy++; break;
	case -ENOENT: s->enoent++; break;
	case -EOPNOTSUPP: s->off++; break;
	default: s->other++;
	}
	w[0] = w0;
	w[1] = w1;
	w[2] = w2;
	w[3] = w3;

	barrier();
	*(volatile __u32 *)&c->level = level;
}

static __always_inline int by_reader(void)
{
	return bpf_get_current_pid_tgid() >> 32 == reader;
}

// Run once by the reader: it may not know the number that the kernel knows it by, in a container.
SEC("raw_tp")
int adopt(void *ctx)
{
	reader = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

// Run by the reader: from now on outputs go to all maps.
SEC("raw_tp")
int spread_out(void *ctx)
{
	spread = 1;
	return 0;
}

SEC("raw_tp")
int gather(void *ctx)
{
	spread = 0;
	return 0;
}

SEC("raw_tp")
int burst(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 count = ctx->args[0];

	for (__u32 n = 0; n < MAX_COUNT; n++) {
		if (n >= count)
			break;
		output(ctx, BURST);
	}
	return 0;
}

SEC("raw_tp/sys_enter")
int on_syscall(void *ctx)
{
	if (!by_reader())
		output(ctx, SYSCALL);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (prev->tgid != reader && next->tgid != reader)
		output(ctx, SWITCH);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	if (task->tgid != reader && !by_reader())
		output(ctx, WAKEUP);
	return 0;
}

SEC("raw_tp/softirq_entry")
int on_softirq(void *ctx)
{
	output(ctx, SOFTIRQ);
	return 0;
}

SEC("raw_tp/timer_expire_entry")
int on_timer(void *ctx)
{
	output(ctx, TIMER);
	return 0;
}

SEC("raw_tp/hrtimer_expire_entry")
int on_hrtimer(void *ctx)
{
	output(ctx, HRTIMER);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
