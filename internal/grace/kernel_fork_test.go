//go:build linux && cgo

package grace

import (
	"os"
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
	return sync.OnceFunc(func() { quit.Store(true); wg.Wait() })
}

// Every wait outlasts the program that is under way, though other threads make child processes meanwhile: a child has copies of its
// parent's descriptors until it executes another program, and only the last close of a mount waits.
func TestKernelWaitBesideForks(t *testing.T) {
	kerneltest.RequireRoot(t)
	kerneltest.RequireCPUs(t, 2, "one to look on while the program runs on the other")
	p, err := cloneSome(mountsToClone)
	require.NoError(t, err)
	defer p.Close()
	tr, err := newTrial()
	require.NoError(t, err)
	defer tr.close()
	stop := spawning(t)
	defer stop()
	// A busy machine sees few programs under way, and takes long for each: it is content with some.
	for begin, seen := time.Now(), 0; seen < 200 && (seen == 0 || time.Since(begin) < 3*time.Second); {
		o, err := tr.round(p.Wait, 2*time.Millisecond)
		require.NoError(t, err)
		require.NotEqual(t, running, o, "a program had not ended")
		if o == ended {
			seen++
		}
	}
	stop()

	// That the test can fail: the close of a descriptor of which a child has a copy does not wait.
	for o := unseen; o != running; {
		fd, err := unix.OpenTree(unix.AT_FDCWD, mountsToClone[0], unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		require.NoError(t, err)
		file := os.NewFile(uintptr(fd), "mount")
		child := exec.Command(kerneltest.RequireCommand(t, "cat"))
		child.ExtraFiles = []*os.File{file}
		in, err := child.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		o, err = tr.round(file.Close, 2*time.Millisecond)
		require.NoError(t, err)
		file.Close() // unless that was done
		in.Close()
		require.NoError(t, child.Wait())
	}
}
