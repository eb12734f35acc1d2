//go:build linux && cgo

package grace

import (
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// spawning makes child processes all the time, on several threads, until stop is called.
func spawning(t *testing.T) (stop func()) {
	command := kerneltest.RequireCommand(t, "true")
	var quit atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !quit.Load() {
				if err := exec.Command(command).Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() { quit.Store(true); wg.Wait() }
}

// waits calls wait n times while a program is under way, and returns how often the program still ran afterwards.
func waits(t *testing.T, n int, wait func() error) (early int) {
	tr, err := newTrial()
	require.NoError(t, err)
	defer tr.close()
	for seen := 0; seen < n; {
		o, err := tr.round(wait, 2*time.Millisecond)
		require.NoError(t, err)
		switch o {
		case running:
			early++
			seen++
		case ended:
			seen++
		}
	}
	return early
}

// Every wait outlasts the program that is under way, though other threads make child processes meanwhile: a child has copies of its
// parent's descriptors until it executes another program, and only the last close of a mount waits.
func TestKernelWaitBesideForks(t *testing.T) {
	kerneltest.RequireRoot(t)
	kerneltest.RequireCPUs(t, 2, "one to look on while the program runs on the other")
	p, err := cloneSome(mountsToClone)
	require.NoError(t, err)
	defer p.Close()
	defer spawning(t)()
	n := 200
	if testing.Short() { // an emulated machine
		n = 30
	}
	require.Zero(t, waits(t, n, p.Wait))

	// That the test can fail: with a descriptor of the process's, it does.
	shared := func() error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, mountsToClone[0], unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return err
		}
		for begin := time.Now(); time.Since(begin) < 300*time.Microsecond; { // a thread may lose its CPU here
		}
		return unix.Close(fd)
	}
	for early := 0; early == 0; {
		early = waits(t, 20, shared)
	}
}
