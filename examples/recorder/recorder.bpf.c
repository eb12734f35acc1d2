//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Tells of every program that is executed, and of every thread that ends.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// Of the kernel's own structs, the fields that are read here. Where they really lie is found when the program is loaded (CO-RE).
struct task_struct {
	int pid;
	int exit_code;
} __attribute__((preserve_access_index));

struct linux_binprm {
	const char *filename;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

struct event {
	char what[8];
	__u32 pid;
	__s32 code;
	char file[48];
};

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct event e = {.what = "exec", .pid = task->pid};

	bpf_probe_read_kernel_str(e.file, sizeof(e.file), bprm->filename);
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &e, sizeof(e));
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct event e = {.what = "exit", .pid = task->pid, .code = task->exit_code >> 8};

	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &e, sizeof(e));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
