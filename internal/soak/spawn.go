//go:build linux && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spawner makes child processes all the time, by this process and not by the load's: a child has
// copies of all its descriptors until it execs or exits. Code that relies on a close being the last
// one fails meanwhile.
type spawner struct {
	children atomic.Uint64
	cancel   context.CancelFunc
	all      sync.WaitGroup
	errs     [2]error // why each kind has ended, once all have
}

// startSpawner makes so many children a second at most: half by fork and exec, as os/exec does,
// which holds syscall.ForkLock, and half by a bare fork, as C libraries make it, which does not.
func startSpawner(rate int, seed uint64) (*spawner, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &spawner{cancel: cancel}
	if rate == 0 {
		return s, nil
	}
	command, err := exec.LookPath("true")
	if err != nil {
		cancel()
		return nil, fmt.Errorf("-spawn needs a program to run: %w", err)
	}
	kinds := []func(*rand.Rand) error{
		func(*rand.Rand) error { return exec.Command(command).Run() },
		forkNapping,
	}
	for i, spawn := range kinds {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		pause := time.Second * time.Duration(len(kinds)) / time.Duration(rate)
		s.all.Go(func() {
			runtime.LockOSThread()
			for sleep(ctx, rnd, 2*pause) { // the mean is pause
				if err := spawn(rnd); err != nil {
					s.errs[i] = fmt.Errorf("making a child process (-spawn 0 makes none): %w", err)
					return
				}
				s.children.Add(1)
			}
		})
	}
	return s, nil
}

// stop ends it, and returns why it has ended before.
func (s *spawner) stop() error {
	s.cancel()
	s.all.Wait()
	return errors.Join(s.errs[:]...)
}

// forkNapping forks a child that does nothing for up to 1 ms, and ends.
func forkNapping(rnd *rand.Rand) error {
	nap := unix.NsecToTimespec(rnd.Int64N(int64(time.Millisecond)))
	pid, errno := forkThenNap(&nap)
	if errno != 0 {
		return fmt.Errorf("fork: %w", errno)
	}
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return err
		}
	}
}

// forkThenNap is fork(2). The child has one thread and no Go runtime: it makes raw system calls
// only, on a stack that does not grow, and stays hidden from the race detector.
//
//go:norace
//go:nosplit
func forkThenNap(nap *unix.Timespec) (pid int, _ unix.Errno) {
	id, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if id != 0 || errno != 0 {
		return int(id), errno
	}
	// The pointer is to the parent's memory, of which the child has a copy at the same address.
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(nap)), 0, 0)
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
