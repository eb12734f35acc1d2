//go:build linux && cgo

package libbpf_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// threads returns what there is of this process's threads of the given name, as /proc/self/task/ID.
func threads(t *testing.T, name string) (all []string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*")
	require.NoError(t, err)
	for _, task := range tasks {
		if comm, err := os.ReadFile(task + "/comm"); err == nil && strings.TrimSpace(string(comm)) == name {
			all = append(all, task)
		}
	}
	return all
}

// The thread has no descriptors but its own, takes no signals, and goes with Close.
func TestMountCloner(t *testing.T) {
	kerneltest.RequireRoot(t)
	leak.Check(t)
	m, err := libbpf.NewMountCloner(os.DevNull)
	require.NoError(t, err)
	require.NoError(t, m.Clone(false))
	tasks := threads(t, "ringfold")
	require.Len(t, tasks, 1)
	fds, err := os.ReadDir(tasks[0] + "/fd")
	require.NoError(t, err)
	require.Empty(t, fds)
	status, err := os.ReadFile(tasks[0] + "/status")
	require.NoError(t, err)
	require.Regexp(t, "SigBlk:\\t[f7e]+[0-9a-f]{8}\n", string(status))

	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 100 {
				if err := m.Clone(i == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	m.Close()
	for len(threads(t, "ringfold")) > 0 { // pthread_join returns before the kernel has taken the thread off the list
		runtime.Gosched()
	}
}

func TestMountClonerErrors(t *testing.T) {
	kerneltest.RequireRoot(t)
	leak.Check(t)
	m, err := libbpf.NewMountCloner("/no/such/file")
	require.NoError(t, err)
	defer m.Close()
	for range 3 {
		requireErrno(t, m.Clone(false), "open_tree", syscall.ENOENT)
	}

	// Without room for a descriptor.
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	one, err := libbpf.NewMountCloner(os.DevNull)
	require.NoError(t, err)
	defer one.Close()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: limit.Max}))
	without := one.Clone(false)
	duplicate := one.Clone(true)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, without)
	requireErrno(t, duplicate, "dup", syscall.EMFILE)
	require.NoError(t, one.Clone(true))
}
