//go:build linux && cgo

package kernel_test

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Reading and order on kernels that lack BTF and most of what other tests need, from Linux 4.18 on.
// The program outputs its time at each system call on the machine.
func TestKernelOldest(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	events, err := bpf.MapCreate(bpf.MapTypePerfEventArray, "events", 4, 4, 1024, 0)
	require.NoError(t, err)
	defer syscall.Close(events)
	prog, err := bpf.ProgLoad(bpf.ProgTypeRawTracepoint, "oldest", "GPL", outputsItsTime(events))
	require.NoError(t, err)
	defer syscall.Close(prog)
	for name, order := range map[string]perfbuf.Order{"exact": {}, "slack": perfbuf.Slack(100e6), "unordered": perfbuf.Unordered()} {
		t.Run(name, func(t *testing.T) {
			r, err := perfbuf.Open(events, perfbuf.Options{})
			require.NoError(t, err)
			defer r.Close()
			s := openStream(t, r, perfbuf.StreamOptions{Order: order})
			at := traceSystemCalls(t, prog)
			n, latest, of := 0, uint64(0), map[int]uint64{} // by CPU
			require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
				if err := ev.Err(); err != nil || ev.Kind() != perfbuf.KindSample {
					return err
				}
				require.Len(t, ev.Bytes(), 12, "8 bytes, and padding")
				took := binary.NativeEndian.Uint64(ev.Bytes()) // by the program, before the kernel
				require.LessOrEqual(t, took, ev.Time())
				require.Less(t, of[ev.CPU()], took)
				of[ev.CPU()] = took
				if name != "unordered" && !ev.Late() {
					require.LessOrEqual(t, latest, ev.Time())
					latest = ev.Time()
				}
				if n++; n == 20_000 {
					return perfbuf.ErrStop
				}
				return nil
			}))
			require.NoError(t, syscall.Close(at))
			require.NoError(t, r.Close())
			<-r.Done()
			st := r.Stats()
			t.Logf("%d late, barriers %s, doorbell %v", st.Late, st.Barrier.Provider, st.Doorbell.Err)
			if name == "exact" {
				require.Zero(t, st.Late)
			}
		})
	}
}

// outputsItsTime is a program.
func outputsItsTime(events int) []bpf.Insn {
	const (
		move        = unix.BPF_ALU64 | unix.BPF_MOV
		x           = unix.BPF_X
		call        = unix.BPF_JMP | unix.BPF_CALL
		ktimeGetNs  = 5
		perfOutput  = 25
		pseudoMapFD = 1
	)
	return []bpf.Insn{
		{Code: move | x, Dst: 6, Src: 1},
		{Code: call, Imm: ktimeGetNs},
		{Code: unix.BPF_STX | unix.BPF_MEM | unix.BPF_DW, Dst: 10, Src: 0, Off: -8},
		{Code: move | x, Dst: 1, Src: 6},
		{Code: unix.BPF_LD | unix.BPF_IMM | unix.BPF_DW, Dst: 2, Src: pseudoMapFD, Imm: int32(events)}, {},
		{Code: unix.BPF_ALU | unix.BPF_MOV, Dst: 3, Imm: -1}, // BPF_F_CURRENT_CPU, in 32 bits
		{Code: move | x, Dst: 4, Src: 10}, {Code: unix.BPF_ALU64 | unix.BPF_ADD, Dst: 4, Imm: -8},
		{Code: move, Dst: 5, Imm: 8},
		{Code: call, Imm: perfOutput},
		{Code: move, Dst: 0},
		{Code: unix.BPF_JMP | unix.BPF_EXIT},
	}
}

// traceSystemCalls runs the program at each system call, until the descriptor is closed, and a
// thread on each CPU that makes some until the test ends.
func traceSystemCalls(t *testing.T, prog int) (fd int) {
	name, err := syscall.BytePtrFromString("sys_enter")
	require.NoError(t, err)
	attr := struct {
		name   *byte
		progFD uint32
		_      uint32
	}{name, uint32(prog), 0}
	const rawTracepointOpen = 17
	at, _, errno := syscall.Syscall(unix.SYS_BPF, rawTracepointOpen, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	require.Zero(t, errno)
	for cpu := range runtime.NumCPU() {
		background(t, func() {
			runtime.LockOSThread()
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				return // an offline CPU
			}
			for t.Context().Err() == nil {
				syscall.Getppid()
				unix.Nanosleep(&unix.Timespec{Nsec: 10_000}, nil)
			}
		})
	}
	return int(at)
}
