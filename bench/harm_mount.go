package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// mounter mounts and unmounts a file system, in a mount namespace of its own: on a thread that ends with it.
type mounter struct {
	dir     string
	lasts   chan time.Duration
	results chan mounted
}

type mounted struct {
	pair time.Duration // what mount and umount take
	err  error
}

func newMounter(cpu int) (*mounter, error) {
	dir, err := os.MkdirTemp("", "ringfold-bench-")
	if err != nil {
		return nil, err
	}
	m := &mounter{dir, make(chan time.Duration), make(chan mounted)}
	go m.run(cpu)
	if err := (<-m.results).err; err != nil {
		close(m.lasts)
		return nil, errors.Join(fmt.Errorf("a mount namespace takes CAP_SYS_ADMIN: %w", err), os.Remove(dir))
	}
	return m, nil
}

func (m *mounter) run(cpu int) {
	runtime.LockOSThread() // for good: no other goroutine may run in this namespace
	_, err := pin(cpu)
	if err == nil {
		err = unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
	}
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	m.results <- mounted{err: err}
	for lasts := range m.lasts {
		var took []float64
		for begin := time.Now(); err == nil && time.Since(begin) < lasts; {
			one := time.Now()
			if err = unix.Mount("ringfold", m.dir, "tmpfs", 0, "size=4k"); err == nil {
				err = unix.Unmount(m.dir, 0)
			}
			took = append(took, float64(time.Since(one)))
		}
		m.results <- mounted{time.Duration(median(took)), err}
	}
}

// pairs mounts and unmounts for a while, and returns what a pair takes at the median.
func (m *mounter) pairs(lasts time.Duration) (time.Duration, error) {
	m.lasts <- lasts
	r := <-m.results
	return r.pair, r.err
}

func (m *mounter) close() {
	close(m.lasts)
	os.Remove(m.dir)
}
