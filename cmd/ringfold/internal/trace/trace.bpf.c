//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Tells of each switch of threads, and of processes that start, run a program, and end. Linux 5.10 and later run it.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// Of the kernel's own structs, the fields that are read here. Where they really lie is found when the program is loaded (CO-RE).
struct task_struct {
	int pid;  // the thread's number
	int tgid; // the process's
	int exit_code;
	char comm[16];
} __attribute__((preserve_access_index));

struct linux_binprm {
	const char *filename;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

enum kind { SWITCH = 1, FORK, EXEC, EXIT };

struct thread {
	__u32 pid, tid;
	char comm[16];
};

// "payload" in event.go is its twin. Neither has padding.
struct event {
	__u32 kind;
	__s32 code; // switch: 1 if the thread did not go of its own will. exit: status, as wait(2) has it
	struct thread current;
	struct thread other; // switch: who runs next. fork: the child
};

// What an exec adds.
struct exec {
	struct event event;
	char file[128];
};

static __always_inline void start(struct event *e, enum kind kind)
{
	__u64 id = bpf_get_current_pid_tgid();

	e->kind = kind;
	e->current.pid = id >> 32;
	e->current.tid = id;
	bpf_get_current_comm(e->current.comm, sizeof(e->current.comm));
}

static __always_inline void set_other(struct event *e, struct task_struct *task)
{
	e->other.pid = task->tgid;
	e->other.tid = task->pid;
	bpf_probe_read_kernel_str(e->other.comm, sizeof(e->other.comm), task->comm);
}

static __always_inline int send(void *ctx, void *data, __u64 size)
{
	// When the ring is full this fails, and the kernel counts it. User space gets that count as an event.
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, data, size);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct event e = {};

	start(&e, SWITCH); // prev is still the current one
	e.code = preempt;
	set_other(&e, next);
	return send(ctx, &e, sizeof(e));
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct event e = {};

	start(&e, FORK);
	set_other(&e, child);
	return send(ctx, &e, sizeof(e));
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct exec e = {};

	start(&e.event, EXEC);
	bpf_probe_read_kernel_str(e.file, sizeof(e.file), bprm->filename);
	return send(ctx, &e, sizeof(e));
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct event e = {};

	start(&e, EXIT);
	e.code = task->exit_code;
	return send(ctx, &e, sizeof(e));
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
