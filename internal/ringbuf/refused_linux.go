package ringbuf

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/ringfold/ringfold/internal/host"
	"golang.org/x/sys/unix"
)

// refusedShard explains why a map in a map could not be opened.
func refusedShard(m host.Map, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	e := host.NewPermissionError(err)
	const instead = ", or open each ring buffer in it by a descriptor of its own and read them as one stream (perfbuf.Merge)"
	switch {
	case host.InUserNamespace():
		e.Missing = []string{"CAP_SYS_ADMIN"}
		e.Detail = fmt.Sprintf("uid %d is in a user namespace, whose capabilities do not count for opening the maps in map %q: run outside it%s", e.UID, m.Name, instead)
	case host.Caps()>>unix.CAP_SYS_ADMIN&1 == 0:
		e.Missing = []string{"CAP_SYS_ADMIN"}
		e.Detail = fmt.Sprintf("uid %d lacks CAP_SYS_ADMIN, which opening the maps in map %q takes (BPF_MAP_GET_FD_BY_ID): grant it%s", e.UID, m.Name, instead)
	default:
		e.Detail = fmt.Sprintf("uid %d has CAP_SYS_ADMIN, which it takes: a sandbox forbids it, such as seccomp or an LSM%s", e.UID, host.SeccompNote())
	}
	return e
}

// explain adds the cause and the remedy to other errors.
func explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		e := host.NewPermissionError(err)
		if caps := host.Caps(); caps>>unix.CAP_BPF&1 == 0 && caps>>unix.CAP_SYS_ADMIN&1 == 0 {
			e.Missing = []string{"CAP_BPF"}
			e.Detail = fmt.Sprintf("uid %d lacks CAP_BPF, which the bpf system call takes here (kernel.unprivileged_bpf_disabled): grant it, or run as root", e.UID)
		} else {
			e.Detail = fmt.Sprintf("uid %d has the capabilities for it: a sandbox forbids it, such as seccomp or an LSM, or the descriptor of a map of maps is "+
				"write-only (BPF_F_WRONLY)%s", e.UID, host.SeccompNote())
		}
		return e
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: each ring buffer takes a file descriptor, and each reader three more: raise the limit (ulimit -n, LimitNOFILE=)", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: a ring buffer takes twice its size of address space, and two mappings: raise the limits (ulimit -v, vm.max_map_count)", err)
	case errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("%w: this kernel has no BPF (CONFIG_BPF_SYSCALL), or a sandbox hides it%s", err, host.SeccompNote())
	}
	return err
}
