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

// observing makes child processes all the time, and reads what /proc has on this process's threads, descriptors and mounts, until
// stop is called.
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
				at(name) // or it is gone
			}
			return err
		})
	}
	look("fd/*", func(name string) { os.Readlink(name) })
	look("fdinfo/*", func(name string) { os.ReadFile(name) })
	look("mountinfo", func(name string) { os.ReadFile(name) })
	return sync.OnceFunc(func() { quit.Store(true); wg.Wait() })
}

// Every wait outlasts the program that is under way, though others make child processes and look at all that the process has meanwhile.
func TestKernelBindMountObserved(t *testing.T) {
	kerneltest.RequireRoot(t)
	kerneltest.RequireCPUs(t, 2, "one to look on while the program runs on the other")
	p, err := bindSome(bindable)
	require.NoError(t, err)
	tr, err := newTrial()
	require.NoError(t, err)
	defer tr.close()
	defer observing(t)()
	// A busy machine sees few programs under way, and takes long for each: it is content with some.
	for begin, seen := time.Now(), 0; seen < 200 && (seen == 0 || time.Since(begin) < 3*time.Second); {
		o, err := tr.round(p.Wait, 2*time.Millisecond)
		require.NoError(t, err)
		require.NotEqual(t, running, o, "a program had not ended")
		if o == ended {
			seen++
		}
	}
	// That the test can fail: without the wait, it does.
	for o := unseen; o != running; {
		o, err = tr.round(p.noWait, 2*time.Millisecond)
		require.NoError(t, err)
	}
}

// No mount and no descriptor is ever there for others to see.
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
	// Nothing may be opened meanwhile in this process. Other processes may mount something, but not all the time.
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

// chrooted returns what f does on a thread whose root directory is another one.
func chrooted(root string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		done <- cmp.Or(unix.Unshare(unix.CLONE_FS), unix.Chroot(root), f())
	}()
	return <-done
}

// A call that the kernel refuses before it copies a mount has not waited, and one that it does not refuse leaves no mount.
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
