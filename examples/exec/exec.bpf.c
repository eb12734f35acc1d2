//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Tells of every program that is executed.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// Of the kernel's own struct, the field that is read here. Where it really lies is found when the program is loaded (CO-RE).
struct linux_binprm {
	const char *filename;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, void *task, int old_pid, struct linux_binprm *bprm)
{
	char file[64] = {};

	bpf_probe_read_kernel_str(file, sizeof(file), bprm->filename);
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, file, sizeof(file));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
