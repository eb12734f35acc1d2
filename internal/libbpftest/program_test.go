//go:build linux && cgo

package libbpftest

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	libbpf "github.com/ringfold/ringfold/cgo"
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

// instruction is struct bpf_insn.
type instruction struct {
	code uint8
	regs uint8 // destination, source << 4
	off  int16
	imm  int32
}

// Helpers: enum bpf_func_id.
const (
	getSMPProcessorID = 8
	perfEventOutput   = 25
)

// instructions is the program, in C:
//
//	u64 payload[2] = {ctx->args[0], bpf_get_smp_processor_id()};
//	return bpf_perf_event_output(ctx, &array, BPF_F_CURRENT_CPU, payload, sizeof(payload));
func instructions(array int) []instruction {
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
		src      = 4 // shift
		mapByFD  = unix.BPF_PSEUDO_MAP_FD
		thisCPU  = -1 // BPF_F_CURRENT_CPU is 0xffffffff
		contents = -16
	)
	return []instruction{
		{code: move, regs: r6 | r1<<src},
		{code: load, regs: r2 | r1<<src, off: 0},
		{code: store, regs: r10 | r2<<src, off: contents},
		{code: call, imm: getSMPProcessorID},
		{code: store, regs: r10 | r0<<src, off: contents + 8},
		{code: move, regs: r1 | r6<<src},
		{code: loadImm, regs: r2 | mapByFD<<src, imm: int32(array)}, {},
		{code: move32, regs: r3, imm: thisCPU},
		{code: move, regs: r4 | r10<<src},
		{code: addImm, regs: r4, imm: contents},
		{code: moveImm, regs: r5, imm: int32(unsafe.Sizeof(payload{}))},
		{code: call, imm: perfEventOutput},
		{code: exit},
	}
}

// bpf is the system call. The memory that attr points to must be pinned.
func bpf(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// load makes the array and loads the program. Without the privilege for that, the test is skipped,
// or fails where RINGFOLD_REQUIRE_KERNEL=1.
func load(t *testing.T) *program {
	t.Helper()
	cpus, err := cpulist.Possible(cpulist.Dir)
	require.NoError(t, err)
	array, err := libbpf.MapCreate(libbpf.MapTypePerfEventArray, "events", 4, 4, cpus[len(cpus)-1]+1, 0)
	if errors.Is(err, syscall.EPERM) && os.Getenv("RINGFOLD_REQUIRE_KERNEL") != "1" {
		t.Skipf("needs CAP_BPF and CAP_PERFMON: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(array) })

	var pinner runtime.Pinner
	defer pinner.Unpin()
	pin := func(p unsafe.Pointer) uint64 {
		pinner.Pin(p)
		return uint64(uintptr(p))
	}
	code, license, log := instructions(array), []byte("GPL\x00"), make([]byte, 1<<16)
	attr := struct { // union bpf_attr, of BPF_PROG_LOAD
		progType, insnCnt uint32
		insns, license    uint64
		logLevel, logSize uint32
		log               uint64
	}{
		progType: unix.BPF_PROG_TYPE_RAW_TRACEPOINT, insnCnt: uint32(len(code)),
		insns: pin(unsafe.Pointer(&code[0])), license: pin(unsafe.Pointer(&license[0])),
		logLevel: 1, logSize: uint32(len(log)), log: pin(unsafe.Pointer(&log[0])),
	}
	fd, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	require.NoError(t, err, "BPF_PROG_LOAD: %s", unix.ByteSliceToString(log))
	t.Cleanup(func() { unix.Close(fd) })
	return &program{t, fd, array}
}

// output runs the program on a CPU, and returns the error of bpf_perf_event_output.
func (p *program) output(cpu int, number uint64) error {
	p.t.Helper()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&number) // args[0] of the program's context
	attr := struct {    // union bpf_attr, of BPF_PROG_TEST_RUN
		prog, retval, sizeIn, sizeOut uint32
		in, out                       uint64
		repeat, duration              uint32
		ctxSizeIn, ctxSizeOut         uint32
		ctxIn, ctxOut                 uint64
		flags, cpu                    uint32
	}{
		prog: uint32(p.fd), ctxSizeIn: uint32(unsafe.Sizeof(number)), ctxIn: uint64(uintptr(unsafe.Pointer(&number))),
		flags: unix.BPF_F_TEST_RUN_ON_CPU, cpu: uint32(cpu),
	}
	_, err := bpf(unix.BPF_PROG_TEST_RUN, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	require.NoError(p.t, err, "BPF_PROG_TEST_RUN on CPU %d", cpu)
	if errno := -int32(attr.retval); errno != 0 {
		return syscall.Errno(errno)
	}
	return nil
}
