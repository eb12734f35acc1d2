//go:build linux && cgo

package grace

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// observing starts child processes and reads this process's threads, descriptors and mounts in
// /proc until stop is called.
func observing(t *testing.T) (stop func()) {
	command := kerneltest.RequireCommand(t, "true")
	var quit atomic.Bool
	var wg sync.WaitGroup
	all := func(f func() error) {
		wg.Go(func() {
			for !quit.Load() {
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all(func() error { return exec.Command(command).Run() })
	look := func(pattern string, at func(name string)) {
		all(func() error {
			names, err := filepath.Glob("/proc/self/task/*/" + pattern)
			for _, name := range names {
				at(name) // unless it is gone
			}
			return err
		})
	}
	look("fd/*", func(name string) { os.Readlink(name) })
	look("fdinfo/*", func(name string) { os.ReadFile(name) })
	look("mountinfo", func(name string) { os.ReadFile(name) })
	return sync.OnceFunc(func() { quit.Store(true); wg.Wait() })
}

// Every wait outlasts the current program, even while other threads fork and inspect the process.
func TestKernelBindMountObserved(t *testing.T) {
	kerneltest.RequireRoot(t)
	kerneltest.RequireCPUs(t, 2, "one to look on while the program runs on the other")
	p, err := bindSome(bindable)
	require.NoError(t, err)
	tr, err := newTrial()
	require.NoError(t, err)
	defer tr.close()
	defer observing(t)()
	// A busy machine sees few programs under way and takes long for each, so settle for fewer.
	for begin, seen := time.Now(), 0; seen < 200 && (seen == 0 || time.Since(begin) < 3*time.Second); {
		o, err := tr.round(p.Wait, 2*time.Millisecond)
		require.NoError(t, err)
		require.NotEqual(t, running, o, "a program had not ended")
		if o == ended {
			seen++
		}
	}
	// Without the wait, the test fails.
	for o := unseen; o != running; {
		o, err = tr.round(p.noWait, 2*time.Millisecond)
		require.NoError(t, err)
	}
}

// Nobody else ever sees a mount or a descriptor.
func TestKernelBindMountLeavesNoTrace(t *testing.T) {
	kerneltest.RequireRoot(t)
	p, err := bindSome(bindable)
	require.NoError(t, err)
	mounts, err := os.Open("/proc/self/mountinfo")
	require.NoError(t, err)
	defer mounts.Close()
	changed := func() bool { // since the last call
		fds := []unix.PollFd{{Fd: int32(mounts.Fd()), Events: unix.POLLPRI}}
		_, err := unix.Poll(fds, 0)
		require.NoError(t, err)
		return fds[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0
	}
	// This process must not open anything meanwhile. Other processes may mount something, but not
	// all the time.
	next, err := unix.Dup(0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(next))
	for begin := time.Now(); ; {
		changed()
		for range 100 {
			require.NoError(t, p.Wait())
		}
		if !changed() {
			break
		}
		require.Less(t, time.Since(begin), time.Minute, "each round changes the mount table")
	}
	again, err := unix.Dup(0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(again))
	require.Equal(t, next, again)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if p.Wait() != nil {
			t.Error("fails")
		}
	}))
}

// chrooted calls f on a thread with another root directory.
func chrooted(root string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		done <- cmp.Or(unix.Unshare(unix.CLONE_FS), unix.Chroot(root), f())
	}()
	return <-done
}

// A call refused before the copy has not waited. A call that succeeds leaves no mount.
func TestKernelBindMountRefused(t *testing.T) {
	kerneltest.RequireRoot(t)
	p, err := bindSome(bindable[:1])
	require.NoError(t, err)
	for name, c := range map[string]struct {
		directories, files []string
		want               error
	}{
		"nothing":         {nil, nil, unix.ENOENT},
		"no directory":    {nil, []string{"/proc"}, unix.ENOTDIR},
		"no source":       {[]string{"/proc"}, []string{"/proc/version"}, unix.ENOENT},
		"no target":       {[]string{"/proc/self"}, nil, unix.ENOENT},
		"both":            {[]string{"/proc/self"}, []string{"/proc/version"}, nil},
		"two directories": {[]string{"/proc/self", "/proc/version"}, nil, errors.ErrUnsupported},
		"two files":       {[]string{"/proc"}, []string{"/proc/self", "/proc/version"}, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, d := range c.directories {
				require.NoError(t, os.MkdirAll(root+d, 0o700))
			}
			for _, f := range c.files {
				require.NoError(t, os.WriteFile(root+f, nil, 0o600))
			}
			err := chrooted(root, p.Wait)
			t.Log(err)
			require.ErrorIs(t, err, c.want)
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			require.NoError(t, err)
			require.NotContains(t, string(mounts), root)
		})
	}
	_, err = bindSome([]bindPaths{{"/no/such/source", "/no/such/target"}, {"", "/dev/null"}})
	require.ErrorIs(t, err, unix.ENOENT)
	require.ErrorContains(t, err, "/no/such/source")
	require.ErrorIs(t, err, unix.EINVAL)
	for range 2 { // the second of two pairs
		p, err = bindSome(append([]bindPaths{{"/no/such/source", "/no/such/target"}}, bindable[1]))
		require.NoError(t, err)
		require.NoError(t, p.Wait())
	}
}
