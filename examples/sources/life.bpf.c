//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Tells of the life of processes, by three maps: two perf event arrays, and a BPF ring buffer of all CPUs.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../../bpf/perfbuf_ringbuf.h"

// Of the kernel's own structs, the fields that are read here.
struct task_struct {
	int pid;
	int tgid;
	int exit_code;
} __attribute__((preserve_access_index));

struct linux_binprm {
	const char *filename;
} __attribute__((preserve_access_index));

#define PERF_EVENT_ARRAY                              \
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);  \
	__uint(key_size, sizeof(__u32));              \
	__uint(value_size, sizeof(__u32))

struct {
	PERF_EVENT_ARRAY;
} execs SEC(".maps");

struct {
	PERF_EVENT_ARRAY;
} exits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} forks SEC(".maps");
PERFBUF_LANES(fork_lanes, 1);

struct exec {
	__u32 pid;
	char file[60];
};

struct exit {
	__u32 pid;
	__s32 code;
};

struct fork {
	__u64 time;
	__u32 cpu;
	__u32 parent;
	__u32 child;
	__u32 unused;
};

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct exec e = {.pid = task->tgid};

	bpf_probe_read_kernel_str(e.file, sizeof(e.file), bprm->filename);
	bpf_perf_event_output(ctx, &execs, BPF_F_CURRENT_CPU, &e, sizeof(e));
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct exit e = {.pid = task->pid, .code = task->exit_code >> 8};

	bpf_perf_event_output(ctx, &exits, BPF_F_CURRENT_CPU, &e, sizeof(e));
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct fork *f = perfbuf_ringbuf_reserve(&forks, &fork_lanes, 0, struct fork, time);

	if (!f)
		return 0;
	f->cpu = bpf_get_smp_processor_id();
	f->parent = parent->pid;
	f->child = child->pid;
	f->unused = 0;
	bpf_ringbuf_submit(f, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
