package grace

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bindMount waits by requesting a bind mount that the kernel refuses: of a directory, on a file.
// do_loopback (fs/namespace.c) first copies the mount. graft_tree refuses a directory on a file,
// and do_loopback dissolves the copy. For that, namespace_unlock calls synchronize_rcu_expedited.
// This grace period interrupts every busy CPU, and so takes microseconds instead of milliseconds.
// It leaves idle CPUs alone. The wait needs CAP_SYS_ADMIN in the user namespace of the mount
// namespace.
//
// The caller itself dissolves the copy and waits, before mount(2) returns. The copy is never in a
// mount namespace and never has a descriptor. So nobody, neither a child process nor an observer,
// can hold it and make another thread dissolve it.
//
// No document promises this wait. So Open uses it only where prove has shown that it works.
type bindMount struct {
	paths          bindPaths
	source, target *byte // for mount(2)
}

// bindPaths are a directory and a file to mount it on.
type bindPaths struct{ source, target string }

// bindable lists the pairs to try in turn. A user namespace may lock mounts below a directory,
// which causes EINVAL: /proc/self has none. Older kernels hold the file's inode lock while they
// wait, so nobody else may change the file. The second pair is for a /proc with processes only
// (subset=pid).
var bindable = []bindPaths{{"/proc/self", "/proc/version"}, {"/", "/dev/null"}}

// bindMountProof is the result of prove in this process.
var bindMountProof proof

func openBindMount() (Provider, error) {
	p, err := bindSome(bindable)
	if err != nil {
		return nil, err
	}
	if err := bindMountProof.get(func() error { return prove(p.Wait, p.noWait) }); err != nil {
		return nil, err
	}
	return p, nil
}

// bindSome uses the first pair with which a wait works.
func bindSome(all []bindPaths) (*bindMount, error) {
	var refusals []error
	for _, paths := range all {
		p := &bindMount{paths: paths}
		var err error
		if p.source, err = unix.BytePtrFromString(paths.source); err == nil {
			p.target, err = unix.BytePtrFromString(paths.target)
		}
		if err == nil {
			err = p.Wait()
		}
		if err == nil {
			return p, nil
		}
		refusals = append(refusals, err)
	}
	return nil, errors.Join(refusals...)
}

func (*bindMount) Name() string { return BindMount.String() }

func (p *bindMount) Wait() error {
	switch errno := p.mount(p.source); errno {
	case unix.ENOTDIR:
		// The kernel refused a directory on a file. After a chroot, /proc may itself be no
		// directory: then no copy was made, and this fails too.
		if _, _, errno := unix.Syscall6(unix.SYS_FACCESSAT, 0, uintptr(unsafe.Pointer(p.target)), unix.F_OK, 0, 0, 0); errno != 0 {
			return p.failed("faccessat", errno)
		}
		return nil
	case 0: // both are directories or both are files, after a chroot
		unix.Unmount(p.paths.target, unix.MNT_DETACH)
		return fmt.Errorf("%s could be mounted on %s, so that was no wait: %w", p.paths.source, p.paths.target, errors.ErrUnsupported)
	default:
		return p.failed("mount", errno)
	}
}

// noWait is Wait without the wait: the kernel refuses an empty source before it copies a mount.
func (p *bindMount) noWait() error {
	if errno := p.mount(new(byte)); errno != unix.EINVAL {
		return p.failed("mount", errno)
	}
	return nil
}

func (p *bindMount) mount(source *byte) unix.Errno {
	// The kernel reads the two strings only during the call.
	_, _, errno := unix.Syscall6(unix.SYS_MOUNT, uintptr(unsafe.Pointer(source)), uintptr(unsafe.Pointer(p.target)), 0, unix.MS_BIND, 0, 0)
	return errno
}

func (*bindMount) Close() error { return nil }

// failed adds the remedy.
func (p *bindMount) failed(call string, errno unix.Errno) error {
	err := fmt.Errorf("%s(%s on %s): %w", call, p.paths.source, p.paths.target, errno)
	switch errno {
	case unix.EPERM, unix.EACCES:
		return fmt.Errorf("%w: it takes CAP_SYS_ADMIN, and a sandbox that allows mount(2). With it, exact order takes microseconds "+
			"instead of milliseconds before Linux 6.19", err)
	case unix.ENOSYS:
		return fmt.Errorf("%w: it takes a seccomp filter that allows mount(2)", err)
	case unix.EINVAL:
		return fmt.Errorf("%w: the mount is unbindable, or of another mount namespace", err)
	}
	return err
}
