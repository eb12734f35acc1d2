//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Programs that may sleep, and the same that may not, for tests of what the verifier keeps from the former. Each test loads
// those that it names.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define EVENTS                                        \
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);  \
	__uint(key_size, sizeof(__u32));              \
	__uint(value_size, sizeof(__u32))

struct {
	EVENTS;
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} calls SEC(".maps");

struct inner {
	EVENTS;
	__uint(max_entries, 1);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct inner);
} arrays SEC(".maps");

// For each kind of program: one that does nothing, one that outputs, and one that calls another.
#define PROGRAMS(kind, section)                                                              \
	SEC("?" section) int kind##_nothing(void *ctx) { return 0; }                         \
                                                                                             \
	SEC("?" section) int kind##_outputs(void *ctx)                                       \
	{                                                                                    \
		__u64 word = 0;                                                              \
                                                                                             \
		bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &word, sizeof(word)); \
		return 0;                                                                    \
	}                                                                                    \
                                                                                             \
	SEC("?" section) int kind##_calls(void *ctx)                                         \
	{                                                                                    \
		bpf_tail_call(ctx, &calls, 0);                                               \
		return 0;                                                                    \
	}

PROGRAMS(lsm, "lsm/file_open")
PROGRAMS(lsm_sleepable, "lsm.s/file_open")
PROGRAMS(fentry, "fentry/bpf_fentry_test1")
PROGRAMS(fentry_sleepable, "fentry.s/bpf_fentry_test1")
PROGRAMS(uprobe, "uprobe")
PROGRAMS(uprobe_sleepable, "uprobe.s")
PROGRAMS(iter, "iter/task")
PROGRAMS(iter_sleepable, "iter.s/task")
PROGRAMS(syscall_sleepable, "syscall") // these all sleep

// Outputs the time.
SEC("?raw_tp")
int prompt(void *ctx)
{
	__u64 time = bpf_ktime_get_ns();

	return bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &time, sizeof(time));
}

struct args {
	__u64 address; // of 8 bytes of the process
};

// Takes the time, reads from the process, which may keep it waiting, and outputs that time to an array that it finds in a map.
SEC("?syscall")
int slow(struct args *ctx)
{
	__u64 time = bpf_ktime_get_ns(), word;
	__u32 zero = 0;
	void *array;

	bpf_copy_from_user(&word, sizeof(word), (void *)ctx->address);
	array = bpf_map_lookup_elem(&arrays, &zero);
	if (!array)
		return -22;
	return bpf_perf_event_output(ctx, array, BPF_F_CURRENT_CPU, &time, sizeof(time));
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
