package grace

import (
	"slices"

	"github.com/ringfold/ringfold/internal/bpf"
	"golang.org/x/sys/unix"
)

// nestLevelVariables are the kernel's names of the two levels, in the order of nestLevel.
var nestLevelVariables = [2]string{"bpf_trace_nest_level", "bpf_event_output_nest_level"}

// Constants of <linux/bpf.h> that x/sys lacks.
const (
	pseudoMapFD         = 1 // BPF_PSEUDO_MAP_FD
	pseudoBTFID         = 3 // BPF_PSEUDO_BTF_ID
	callPerfEventOutput = 25
	callPerCPUPtr       = 153
)

// licence satisfies bpf_perf_event_output.
const licence = "Dual BSD/GPL"

// lookCPUs is how many CPUs one run of the program covers. The verifier walks through all of them,
// and allows thousands at most.
const lookCPUs = 512

// loadLook loads a program that looks at some CPUs' levels and returns the first that is not 0, as
// a nestLevel. Its context is the first CPU's number. It writes nothing, and takes tens of
// nanoseconds per CPU, with preemption off.
func loadLook(variables [2]int32, cpus int) (int, error) {
	// level jumps if *bpf_per_cpu_ptr(&variable, cpu) is not 0, or without such a CPU. It has 7
	// instructions.
	level := func(variable int32, none, raised int16) []bpf.Insn {
		return []bpf.Insn{
			{Code: unix.BPF_LD | unix.BPF_IMM | unix.BPF_DW, Dst: 1, Src: pseudoBTFID, Imm: variable},
			{},
			{Code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X, Dst: 2, Src: 6},
			{Code: unix.BPF_JMP | unix.BPF_CALL, Imm: callPerCPUPtr},
			{Code: unix.BPF_JMP | unix.BPF_JEQ, Dst: 0, Off: none},
			{Code: unix.BPF_LDX | unix.BPF_MEM | unix.BPF_W, Dst: 0, Src: 0},
			{Code: unix.BPF_JMP | unix.BPF_JNE, Dst: 0, Off: raised},
		}
	}
	result := func(add int32) []bpf.Insn {
		return []bpf.Insn{
			{Code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X, Dst: 0, Src: 6},
			{Code: unix.BPF_ALU64 | unix.BPF_LSH, Dst: 0, Imm: 1},
			{Code: unix.BPF_ALU64 | unix.BPF_ADD, Dst: 0, Imm: add},
			{Code: unix.BPF_JMP | unix.BPF_EXIT},
		}
	}
	return bpf.ProgLoad(bpf.ProgTypeRawTracepoint, "ringfold_look", licence, slices.Concat(
		[]bpf.Insn{
			{Code: unix.BPF_LDX | unix.BPF_MEM | unix.BPF_DW, Dst: 6, Src: 1},              // 0: the CPU
			{Code: unix.BPF_ALU64 | unix.BPF_MOV, Dst: 7, Imm: int32(min(cpus, lookCPUs))}, // 1: how many
		},
		level(variables[0], 19-7, 21-9),   // 2
		level(variables[1], 19-14, 25-16), // 9
		[]bpf.Insn{
			{Code: unix.BPF_ALU64 | unix.BPF_ADD, Dst: 6, Imm: 1},    // 16
			{Code: unix.BPF_ALU64 | unix.BPF_SUB, Dst: 7, Imm: 1},    // 17
			{Code: unix.BPF_JMP | unix.BPF_JNE, Dst: 7, Off: 2 - 19}, // 18
			{Code: unix.BPF_ALU64 | unix.BPF_MOV, Dst: 0},            // 19: none is raised
			{Code: unix.BPF_JMP | unix.BPF_EXIT},                     // 20
		},
		result(1), // 21: the first one is
		result(2), // 25: the second one is
	))
}

// loadOutputs loads a program that outputs 8 bytes many times. A raw tracepoint raises
// bpf_trace_nest_level, a socket filter bpf_event_output_nest_level.
func loadOutputs(progType, events int) (int, error) {
	const outputs = 256
	return bpf.ProgLoad(progType, "ringfold_output", licence, []bpf.Insn{
		{Code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X, Dst: 6, Src: 1},
		{Code: unix.BPF_ST | unix.BPF_MEM | unix.BPF_DW, Dst: 10, Off: -8},
		{Code: unix.BPF_ALU64 | unix.BPF_MOV, Dst: 7, Imm: outputs},

		{Code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X, Dst: 1, Src: 6},
		{Code: unix.BPF_LD | unix.BPF_IMM | unix.BPF_DW, Dst: 2, Src: pseudoMapFD, Imm: int32(events)},
		{},
		{Code: unix.BPF_ALU | unix.BPF_MOV, Dst: 3, Imm: -1}, // BPF_F_CURRENT_CPU
		{Code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X, Dst: 4, Src: 10},
		{Code: unix.BPF_ALU64 | unix.BPF_ADD, Dst: 4, Imm: -8},
		{Code: unix.BPF_ALU64 | unix.BPF_MOV, Dst: 5, Imm: 8},
		{Code: unix.BPF_JMP | unix.BPF_CALL, Imm: callPerfEventOutput},
		{Code: unix.BPF_ALU64 | unix.BPF_SUB, Dst: 7, Imm: 1},
		{Code: unix.BPF_JMP | unix.BPF_JNE, Dst: 7, Off: -10},

		{Code: unix.BPF_ALU64 | unix.BPF_MOV, Dst: 0},
		{Code: unix.BPF_JMP | unix.BPF_EXIT},
	})
}
