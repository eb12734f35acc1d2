//go:build linux

package libbpftest

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// program is a loaded BPF program, and the perf event array that it outputs to.
type program struct {
	t       *testing.T
	fd, ary int
}

// payload is the program's output: the number that run was given, and its CPU.
type payload struct{ Number, CPU uint64 }

// Helpers: enum bpf_func_id.
const (
	getSMPProcessorID = 8
	perfEventOutput   = 25
)

// instructions is the program, in C:
//
//	u64 payload[2] = {ctx->args[0], bpf_get_smp_processor_id()};
//	return bpf_perf_event_output(ctx, &array, BPF_F_CURRENT_CPU, payload, sizeof(payload));
func instructions(array int) []bpf.Insn {
	const r0, r1, r2, r3, r4, r5, r6, r10 = 0, 1, 2, 3, 4, 5, 6, 10
	const (
		load     = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_DW
		store    = unix.BPF_STX | unix.BPF_MEM | unix.BPF_DW
		move     = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X
		moveImm  = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K
		move32   = unix.BPF_ALU | unix.BPF_MOV | unix.BPF_K // clears the upper half
		addImm   = unix.BPF_ALU64 | unix.BPF_ADD | unix.BPF_K
		loadImm  = unix.BPF_LD | unix.BPF_IMM | unix.BPF_DW // two instructions long
		call     = unix.BPF_JMP | unix.BPF_CALL
		exit     = unix.BPF_JMP | unix.BPF_EXIT
		mapByFD  = unix.BPF_PSEUDO_MAP_FD
		thisCPU  = -1 // BPF_F_CURRENT_CPU is 0xffffffff
		contents = -16
	)
	return []bpf.Insn{
		{Code: move, Dst: r6, Src: r1},
		{Code: load, Dst: r2, Src: r1, Off: 0},
		{Code: store, Dst: r10, Src: r2, Off: contents},
		{Code: call, Imm: getSMPProcessorID},
		{Code: store, Dst: r10, Src: r0, Off: contents + 8},
		{Code: move, Dst: r1, Src: r6},
		{Code: loadImm, Dst: r2, Src: mapByFD, Imm: int32(array)}, {},
		{Code: move32, Dst: r3, Imm: thisCPU},
		{Code: move, Dst: r4, Src: r10},
		{Code: addImm, Dst: r4, Imm: contents},
		{Code: moveImm, Dst: r5, Imm: int32(unsafe.Sizeof(payload{}))},
		{Code: call, Imm: perfEventOutput},
		{Code: exit},
	}
}

// load makes the array and loads the program. Without the privilege for that, the test is skipped,
// or fails where RINGFOLD_REQUIRE_KERNEL=1.
func load(t *testing.T) *program {
	t.Helper()
	cpus, err := cpulist.Possible(cpulist.Dir)
	require.NoError(t, err)
	array, err := bpf.MapCreate(bpf.MapTypePerfEventArray, "events", 4, 4, cpus[len(cpus)-1]+1, 0)
	if errors.Is(err, syscall.EPERM) && os.Getenv("RINGFOLD_REQUIRE_KERNEL") != "1" {
		t.Skipf("needs CAP_BPF and CAP_PERFMON: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(array) })

	fd, err := bpf.ProgLoad(bpf.ProgTypeRawTracepoint, "output", "GPL", instructions(array))
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return &program{t, fd, array}
}

// output runs the program on a CPU, and returns the error of bpf_perf_event_output.
func (p *program) output(cpu int, number uint64) error {
	p.t.Helper()
	ret, err := bpf.ProgTestRun(p.fd, nil, binary.NativeEndian.AppendUint64(nil, number), cpu)
	require.NoError(p.t, err, "BPF_PROG_TEST_RUN on CPU %d", cpu)
	if errno := -int32(ret); errno != 0 {
		return syscall.Errno(errno)
	}
	return nil
}
