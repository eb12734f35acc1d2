//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs the life of processes. Linux 5.10 and later run it.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

// "process" in main.go is its twin. It carries no time and no CPU number: the ring knows both.
struct process {
	__u32 kind;
	__u32 pid; // of the process that runs
	char comm[16];
};

static __always_inline int output(void *ctx, __u32 kind)
{
	struct process p = {.kind = kind, .pid = bpf_get_current_pid_tgid() >> 32};

	bpf_get_current_comm(p.comm, sizeof(p.comm));
	// When the ring is full this fails, and the kernel counts it. User space gets that count as an event.
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &p, sizeof(p));
	return 0;
}

SEC("tp_btf/sched_process_fork")
int on_fork(void *ctx)
{
	return output(ctx, 0);
}

SEC("tp_btf/sched_process_exec")
int on_exec(void *ctx)
{
	return output(ctx, 1);
}

SEC("tp_btf/sched_process_exit")
int on_exit(void *ctx)
{
	return output(ctx, 2);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
