//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs the life of processes in a lane that is never shed, and each system call in one that is.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../../bpf/perfbuf_output.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

// Whoever keeps a table of processes needs each fork, exec and exit; of the calls, a part will do.
enum { CALLS, LIFE, LANES };

PERFBUF_LANES(lanes, LANES);

__u32 reader; // the process that reads: its own system calls would cause events without end

// "event" in main.go is its twin.
struct event {
	__u32 kind; // 0: fork, 1: exec, 2: exit, 3: system call
	__u32 pid;
	__s64 call; // the system call's number
};

static __always_inline int output(void *ctx, __u32 lane, __u32 kind, __s64 call)
{
	struct event e = {.kind = kind, .pid = bpf_get_current_pid_tgid() >> 32, .call = call};

	if (e.pid != reader)
		perfbuf_output(ctx, &events, &lanes, lane, &e, sizeof(e));
	return 0;
}

SEC("tp_btf/sched_process_fork")
int on_fork(void *ctx)
{
	return output(ctx, LIFE, 0, 0);
}

SEC("tp_btf/sched_process_exec")
int on_exec(void *ctx)
{
	return output(ctx, LIFE, 1, 0);
}

SEC("tp_btf/sched_process_exit")
int on_exit(void *ctx)
{
	return output(ctx, LIFE, 2, 0);
}

SEC("tp_btf/sys_enter")
int on_call(__u64 *ctx)
{
	return output(ctx, CALLS, 3, ctx[1]);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
