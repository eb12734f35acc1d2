//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Follows the life of processes on all CPUs. Linux 5.10 and later run it.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// Of the kernel's own structs, the fields that are read here. Where they really lie is found when the program is loaded (CO-RE).
struct task_struct {
	int pid;  // the thread's number
	int tgid; // the process's
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

enum kind { FORK = 1, EXEC, EXIT };

// One struct for all kinds, without padding; "Event" in event.go is its twin. It carries no
// time and no CPU number: the ring knows both.
struct process {
	enum kind kind;
	__u32 pid, tid;             // the process and thread that ran
	__u32 child_pid, child_tid; // fork
	__s32 code;                 // exit: status, as wait(2) has it
	char comm[16];
	char file[128];             // exec
};

static __always_inline void start(struct process *e, enum kind kind)
{
	__u64 id = bpf_get_current_pid_tgid();

	e->kind = kind;
	e->pid = id >> 32;
	e->tid = id;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
}

// Not inlined: so the BTF has the struct, by which the tool decodes it.
static __noinline int send(void *ctx, struct process *e)
{
	// When the ring is full this fails, and the kernel counts it. User space gets that count as an event.
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, e, sizeof(*e));
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct process e = {};

	start(&e, FORK);
	e.child_pid = child->tgid;
	e.child_tid = child->pid;
	return send(ctx, &e);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct process e = {};

	start(&e, EXEC);
	bpf_probe_read_kernel_str(e.file, sizeof(e.file), bprm->filename);
	return send(ctx, &e);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct process e = {};

	start(&e, EXIT);
	e.code = task->exit_code;
	return send(ctx, &e);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
