//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Outputs a struct of all sorts of fields, for tests of decoding. Run it with BPF_PROG_TEST_RUN: the context's first word is how
// many of the struct's bytes are output.
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} decode_events SEC(".maps");

enum color { RED = 1, GREEN = 7 };
enum sign { MINUS = -1, PLUS = 1 };

typedef __s32 temperature;

struct point {
	__s16 x, y;
};

struct sample {
	__u64 big;
	char comm[16];
	temperature cold;
	enum color color;
	enum color unknown;
	enum sign sign;
	__u32 low : 3, middle : 7, : 6, high : 16;
	__s32 minus : 5, rest : 27;
	void *pointer;
	struct point at;
	struct {
		__u16 inner;
		union {
			__u16 both;
			__u8 bytes[2];
		};
	};
	struct point path[2];
	__u8 address[6];
	bool yes, no;
	signed char one;
	const volatile __u32 *const *pointers[1];
	double ratio;
	char end[8];
};

typedef struct sample sample_t;

sample_t sample = {
	.big = 1ULL << 63, .comm = "a \"b\"\n", .cold = -40, .color = GREEN, .unknown = 3, .sign = MINUS, .low = 5, .middle = 100, .high = 0xfffe,
	.minus = -3, .rest = 1000, .pointer = (void *)0xffff888000001000, .at = { -1, 2 }, .inner = 9, .both = 0x0201, .path = { { 3, 4 }, { 5, 6 } },
	.address = { 0xde, 0xad, 0xbe, 0xef, 0, 1 }, .yes = true, .one = -1, .pointers = { (void *)0x10 }, .ratio = 0.5, .end = "the end",
};

SEC("raw_tp")
int output_sample(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 size = ctx->args[0];

	if (size > sizeof(sample))
		return -1;
	return bpf_perf_event_output(ctx, &decode_events, BPF_F_CURRENT_CPU, &sample, size);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
