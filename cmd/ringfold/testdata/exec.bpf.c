//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs executed programs to a perf event array and to a BPF ring buffer: maps and types with the names that documents use.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} rb SEC(".maps");

struct event {
	__u32 pid;
	__s32 ret;
	char comm[16];
	char args[16];
};

struct record {
	__u64 time;
	__u32 cpu;
	__u32 pid;
};

// A function, so that the program's BTF has the types, whoever loads it.
static __noinline int output(void *ctx, struct event *e, struct record *r)
{
	bpf_ringbuf_output(&rb, r, sizeof(*r), 0);
	return bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, e, sizeof(*e));
}

SEC("raw_tp/sched_process_exec")
int executed(void *ctx)
{
	struct event e = { .pid = bpf_get_current_pid_tgid() >> 32 };
	struct record r = { .time = bpf_ktime_get_ns(), .cpu = bpf_get_smp_processor_id(), .pid = e.pid };

	e.ret = e.pid % 2 ? -2 : 0;
	bpf_get_current_comm(e.comm, sizeof(e.comm));
	bpf_get_current_comm(e.args, sizeof(e.args));
	output(ctx, &e, &r);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
