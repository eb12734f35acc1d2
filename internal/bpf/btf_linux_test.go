//go:build linux && cgo

package bpf_test

import (
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestKernelVariables(t *testing.T) {
	kerneltest.Require(t)
	ids, err := bpf.KernelVariables("runqueues", "process_counts")
	require.NoError(t, err)
	require.Len(t, ids, 2)
	require.Positive(t, ids[0])
	require.Positive(t, ids[1])
	require.NotEqual(t, ids[0], ids[1])
	_, err = bpf.KernelVariables("runqueues", "no_such_variable")
	require.ErrorIs(t, err, syscall.ENOENT)
	require.ErrorContains(t, err, "no variable no_such_variable in /sys/kernel/btf/vmlinux")
}

func TestKernelMembers(t *testing.T) {
	kerneltest.Require(t)
	offsets, err := bpf.KernelMembers([2]string{"list_head", "next"}, [2]string{"list_head", "prev"},
		[2]string{"bpf_array", "value"}, [2]string{"bpf_array", "ptrs"}) // in an anonymous union
	require.NoError(t, err)
	require.Equal(t, []int{0, 8}, offsets[:2])
	require.Equal(t, offsets[2], offsets[3])
	require.Greater(t, offsets[3], 100)
	for _, none := range [][2]string{{"list_head", "nothing"}, {"no_such_struct", "next"}} {
		_, err = bpf.KernelMembers(none)
		require.ErrorIs(t, err, syscall.ENOENT)
		require.ErrorContains(t, err, "no struct "+none[0]+" with a member "+none[1])
	}
}
