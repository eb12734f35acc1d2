//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Tells of some system calls of one process, on whatever CPU it makes them. Linux 5.10 and later run it.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define KINDS 3

// Set before the program is loaded.
const volatile struct {
	__u32 pid;          // the process
	__u32 calls[KINDS]; // its system calls, by number
} config = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

// What became of the outputs on a CPU, so that what user space gets can be compared with it.
struct outputs {
	__u64 attempted;
	__s64 error; // of the last one
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct outputs);
} outputs SEC(".maps");

// "payload" in counts.go is its twin.
struct event {
	__u32 pid;
	__u32 nr;
	char comm[16];
};

SEC("raw_tp/sys_enter")
int on_sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 zero = 0, nr = ctx->args[1];
	struct event e = {.pid = bpf_get_current_pid_tgid() >> 32, .nr = nr};
	struct outputs *o;

	if (e.pid != config.pid || (nr != config.calls[0] && nr != config.calls[1] && nr != config.calls[2]))
		return 0;
	bpf_get_current_comm(e.comm, sizeof(e.comm));
	o = bpf_map_lookup_elem(&outputs, &zero);
	if (!o)
		return 0;
	o->attempted++;
	// When the ring is full this fails, and the kernel counts it. User space gets that count with the next event that finds room.
	o->error = bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &e, sizeof(e));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
