//go:build linux && cgo

package bpf_test

import (
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestProg(t *testing.T) {
	kerneltest.Require(t)
	code := []bpf.Insn{
		{Code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K, Dst: 7, Imm: -3},
		{Code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X, Dst: 0, Src: 7},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Dst: 7, Imm: -3, Off: 1},
		{Code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K, Imm: 1},
		{Code: unix.BPF_JMP | unix.BPF_EXIT},
	}
	fd, err := bpf.ProgLoad(bpf.ProgTypeSocketFilter, "test", "BSD", code)
	require.NoError(t, err)
	defer unix.Close(fd)
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.Equal(t, unix.FD_CLOEXEC, flags)

	ret, err := bpf.ProgTestRun(fd, make([]byte, 64), nil, -1)
	require.NoError(t, err)
	require.EqualValues(t, -3, int32(ret))
	_, err = bpf.ProgTestRun(fd, make([]byte, 1), nil, -1)
	requireErrno(t, err, "bpf(BPF_PROG_TEST_RUN)", syscall.EINVAL)

	code[0].Dst = 10
	_, err = bpf.ProgLoad(bpf.ProgTypeSocketFilter, "test", "BSD", code)
	requireErrno(t, err, "bpf(BPF_PROG_LOAD)", syscall.EACCES)
	require.ErrorContains(t, err, "frame pointer is read only")
}
