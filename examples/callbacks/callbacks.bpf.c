//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs an event per system call of one process. Linux 5.10 and later run it.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 pid = 0; // set before the program is loaded

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

SEC("raw_tp/sys_enter")
int on_sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 caller = bpf_get_current_pid_tgid() >> 32;

	// When the ring is full this fails, and the kernel counts it. User space gets that count with the next event that finds room.
	if (caller == pid)
		bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &caller, sizeof(caller));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
