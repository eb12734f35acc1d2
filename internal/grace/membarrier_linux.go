package grace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/ringfold/ringfold/internal/cpulist"
	"golang.org/x/sys/unix"
)

// Commands of include/uapi/linux/membarrier.h.
const (
	membarrierQuery  = 0
	membarrierGlobal = 1 << 0
)

var errOneCPU = errors.New("the kernel does not wait while only one CPU is online")

// membarrier waits with membarrier(MEMBARRIER_CMD_GLOBAL), which calls synchronize_rcu in
// kernel/sched/membarrier.c. The expedited commands only send interrupts and wait for no program.
//
// With one CPU online the kernel skips the wait. That suffices for memory ordering, but not here: a
// preempted program may be anywhere. So each Wait checks that two CPUs stayed online throughout.
type membarrier struct {
	dir  string // cpulist.Dir
	call func(cmd int) (int, error)
}

func openMembarrier() (Provider, error) {
	return newMembarrier(cpulist.Dir, membarrierCall)
}

func newMembarrier(dir string, call func(cmd int) (int, error)) (Provider, error) {
	m := membarrier{dir, call}
	commands, err := m.call(membarrierQuery)
	if err != nil {
		return nil, fmt.Errorf("membarrier(MEMBARRIER_CMD_QUERY): %w", err)
	}
	if commands&membarrierGlobal == 0 {
		return nil, fmt.Errorf("this kernel has no MEMBARRIER_CMD_GLOBAL: %w", errors.ErrUnsupported)
	}
	return m, nil
}

func (membarrier) Name() string { return "membarrier" }

func (m membarrier) Wait() error {
	for {
		w, err := watch(m.dir)
		if err != nil {
			return err
		}
		_, err = m.call(membarrierGlobal)
		gone := w.stayed()
		w.stop()
		switch {
		case err == unix.EINVAL:
			return fmt.Errorf("membarrier(MEMBARRIER_CMD_GLOBAL): does not work while a CPU is nohz_full: %w", err)
		case err != nil:
			return fmt.Errorf("membarrier(MEMBARRIER_CMD_GLOBAL): %w", err)
		case gone == nil:
			return nil
		}
		// A CPU went offline meanwhile. The next watch uses another, or finds none.
	}
}

func (membarrier) Close() error { return nil }

func membarrierCall(cmd int) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, uintptr(cmd), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// A pair watches two CPUs. Comparing the online CPUs before and after would not do, because one may
// have gone and come back. But the kernel removes a CPU's topology directory in sysfs each time it
// goes (drivers/base/topology.c), and files open then become unreadable.
//
// The checks take some ten microseconds, the wait milliseconds.
type pair struct {
	dir  string
	cpus [2]int
	fds  [2]int
}

// watch watches two online CPUs until stop.
func watch(dir string) (*pair, error) {
	for try := 1; ; try++ {
		online, err := cpulist.Online(dir)
		if err != nil {
			return nil, err
		}
		if len(online) < 2 {
			return nil, errOneCPU
		}
		w := &pair{dir: dir, cpus: [2]int(online), fds: [2]int{-1, -1}}
		if err = w.open(); err == nil {
			return w, nil
		}
		w.stop()
		if try == 5 {
			return nil, fmt.Errorf("cannot watch whether CPUs %v stay online: %w", w.cpus, err)
		}
		// A CPU has gone offline since the list was read.
	}
}

func (w *pair) open() (err error) {
	for i, cpu := range w.cpus {
		file := w.dir + "cpu" + strconv.Itoa(cpu) + "/topology/physical_package_id"
		if w.fds[i], err = unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return &os.PathError{Op: "open", Path: file, Err: err}
		}
	}
	return w.stayed()
}

// stayed returns nil if both CPUs have been online since open called it.
func (w *pair) stayed() error {
	// In this order: a CPU that came back to the list has lost its directory before.
	online, err := cpulist.Online(w.dir)
	if err != nil {
		return err
	}
	for i, cpu := range w.cpus {
		var b [16]byte
		n, err := unix.Pread(w.fds[i], b[:], 0)
		if n <= 0 || !slices.Contains(online, cpu) {
			return fmt.Errorf("CPU %d went offline: %w", cpu, cmp.Or(err, error(unix.ENODEV)))
		}
	}
	return nil
}

func (w *pair) stop() {
	for _, fd := range w.fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
