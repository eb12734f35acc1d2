package grace

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	libbpf "github.com/ringfold/ringfold/cgo"
)

// openTree waits by cloning a mount, attached nowhere, and closing the clone. The kernel dissolves a mount in namespace_unlock
// (fs/namespace.c), which calls synchronize_rcu_expedited: a grace period that asks every busy CPU by an interrupt, and so
// takes microseconds where others take milliseconds. It takes CAP_SYS_ADMIN, in the user namespace of the mount namespace,
// and Linux 5.9. Idle CPUs are not interrupted.
//
// No document says that this close waits. So it is used only where prove has shown that it does.
type openTree struct{ cloner *libbpf.MountCloner }

// mountsToClone are tried in turn. A file has no mounts below it, which a user namespace may have locked (EINVAL); the
// root directory is for systems that have neither file.
var mountsToClone = []string{os.DevNull, "/proc/version", "/"}

// openTreeProof is what prove has found out in this process.
var openTreeProof struct {
	sync.Mutex
	done bool
	err  error
}

func openOpenTree() (Provider, error) {
	p, err := cloneSome(mountsToClone)
	if err != nil {
		return nil, err
	}
	openTreeProof.Lock()
	defer openTreeProof.Unlock()
	if !openTreeProof.done {
		// With one close too few, all is as with Wait, but the wait.
		err := prove(p.Wait, func() error { return p.clone(true) })
		openTreeProof.done, openTreeProof.err = !errors.Is(err, errUnclear), err
	}
	if err := openTreeProof.err; err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// cloneSome opens the first path that can be cloned.
func cloneSome(paths []string) (*openTree, error) {
	var refusals []error
	for _, path := range paths {
		cloner, err := libbpf.NewMountCloner(path)
		if err != nil {
			return nil, explainClone(err)
		}
		p := &openTree{cloner}
		if err = p.Wait(); err == nil {
			return p, nil
		}
		p.Close()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
			return nil, err
		}
		refusals = append(refusals, fmt.Errorf("%s: %w", path, err))
	}
	return nil, errors.Join(refusals...)
}

func (*openTree) Name() string { return "open-tree" }

func (p *openTree) Wait() error { return p.clone(false) }

func (p *openTree) clone(held bool) error { return explainClone(p.cloner.Clone(held)) }

func (p *openTree) Close() error {
	p.cloner.Close()
	return nil
}

// explainClone adds to an error what would help.
func explainClone(err error) error {
	var e *libbpf.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Errno == syscall.EPERM:
		return fmt.Errorf("%w: it takes CAP_SYS_ADMIN, and a seccomp filter that allows open_tree. With it, exact order "+
			"takes microseconds instead of milliseconds before Linux 6.19", err)
	case e.Errno == syscall.ENOSYS:
		return fmt.Errorf("%w: it takes Linux 5.9, and a seccomp filter that allows open_tree and close_range", err)
	case e.Errno == syscall.EINVAL && e.Call == "open_tree":
		return fmt.Errorf("%w: the mount is unbindable, or of another mount namespace", err)
	}
	return err
}
