//go:build linux && cgo

package libbpf_test

import (
	"syscall"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestKernelVariables(t *testing.T) {
	kerneltest.Require(t)
	ids, err := libbpf.KernelVariables("runqueues", "process_counts")
	require.NoError(t, err)
	require.Len(t, ids, 2)
	require.Positive(t, ids[0])
	require.Positive(t, ids[1])
	require.NotEqual(t, ids[0], ids[1])
	_, err = libbpf.KernelVariables("runqueues", "no_such_variable")
	requireErrno(t, err, "btf__find_by_name_kind", syscall.ENOENT)
	require.ErrorContains(t, err, "no variable no_such_variable in /sys/kernel/btf/vmlinux")
}
