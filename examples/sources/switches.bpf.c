//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Tells which task a CPU goes on to. That happens often, so each CPU has a BPF ring buffer of its own: CPUs do not contend for its lock.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../../bpf/perfbuf_ringbuf.h"

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

struct shard {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
};

// By CPU. User space puts the ring buffers in.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PERFBUF_CPUS);
	__type(key, __u32);
	__array(values, struct shard);
} switches SEC(".maps");
PERFBUF_LANES(lanes, 1);

struct task_switch {
	__u64 time;
	__u32 cpu;
	__u32 from;
	__u32 to;
	__u32 unused;
};

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *from, struct task_struct *to)
{
	__u32 cpu = bpf_get_smp_processor_id();
	void *shard = bpf_map_lookup_elem(&switches, &cpu);
	struct task_switch *s;

	if (!shard)
		return 0;
	s = perfbuf_ringbuf_reserve(shard, &lanes, 0, struct task_switch, time);
	if (!s)
		return 0;
	s->cpu = cpu;
	s->from = from->pid;
	s->to = to->pid;
	s->unused = 0;
	bpf_ringbuf_submit(s, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
