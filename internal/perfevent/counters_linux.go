package perfevent

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// openOutputs takes the counts so far as the baseline. Call it before the rings are in the map.
func openOutputs(want kernel.OutputCounts) (*outputs, error) {
	if want.MapFD == 0 && len(want.ProgFDs) == 0 {
		return nil, nil
	}
	c := &counters{table: -1}
	err := c.open(want)
	var o *outputs
	if err == nil {
		o, err = newOutputs(c.read, c.close)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("Options.OutputsFD and ProgFDs: %w", err)
	}
	return o, nil
}

// counters holds duplicates of the descriptors of the map and the programs.
type counters struct {
	table, entries int   // the map and its number of entries; -1 and 0 without one
	cpus           []int // possible CPUs, in the order of a per-CPU map's values
	values         []uint64
	programs       []int
}

func (c *counters) open(want kernel.OutputCounts) error {
	for _, fd := range want.ProgFDs {
		prog, err := dupBPF(fd, "bpf-prog", func(fd int) error { _, err := bpf.RecursionMisses(fd); return err })
		if err != nil {
			return err
		}
		c.programs = append(c.programs, prog)
	}
	if want.MapFD == 0 {
		return nil
	}
	var m host.Map
	table, err := dupBPF(want.MapFD, "bpf-map", func(fd int) error {
		info, err := bpf.GetMapInfo(fd)
		m = host.Map(info)
		return err
	})
	if err != nil {
		return err
	}
	c.table, c.entries = table, m.MaxEntries
	if m.Type != bpfMapTypePerCPUArray || m.KeySize != 4 || m.ValueSize != 8 || m.MaxEntries < 2 {
		return m.Fail("it is of type %s, with keys of %d bytes, values of %d and %d entries: pass the map perfbuf_outputs of bpf/perfbuf_output.h, "+
			"which has type BPF_MAP_TYPE_PERCPU_ARRAY (6), 4, 8 and at least 2", m.TypeName(), m.KeySize, m.ValueSize, m.MaxEntries)
	}
	c.cpus, err = cpulist.Possible(cpulist.Dir)
	c.values = make([]uint64, len(c.cpus))
	return err
}

// dupBPF duplicates a descriptor that /proc names kind. info asks the kernel about it.
func dupBPF(fd int, kind string, info func(fd int) error) (int, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("fd %d is not an open file descriptor: %w", fd, err)
	}
	name := host.LinkName(dup)
	err = info(dup)
	if errors.Is(err, syscall.EINVAL) || err == nil && name != kind && strings.HasPrefix(name, "bpf-") {
		// The kernel answers for every kind of BPF object, each with its own struct.
		err = fmt.Errorf("fd %d is %s, not %s: %w", fd, name, kind, syscall.EINVAL)
	}
	if err != nil {
		unix.Close(dup)
		return -1, err
	}
	return dup, nil
}

func (c *counters) close() {
	if c.table >= 0 {
		unix.Close(c.table)
	}
	for _, fd := range c.programs {
		unix.Close(fd)
	}
}

func (c *counters) read() (s kernel.Outputs, err error) {
	for _, fd := range c.programs {
		n, err := bpf.RecursionMisses(fd)
		if err != nil {
			return s, err
		}
		s.RecursionMisses += n
	}
	if c.entries == 0 {
		return s, nil
	}
	for _, cpu := range c.cpus {
		s.CPUs = append(s.CPUs, kernel.CPUOutputs{CPU: cpu})
	}
	for key := range c.entries {
		if err := bpf.MapLookup(c.table, uint32(key), c.values); err != nil {
			return s, err
		}
		for i, n := range c.values {
			o := &s.CPUs[i]
			o.Attempted += n
			*result(o, key, c.entries-1) += n
		}
	}
	return s, nil
}

const tooLarge syscall.Errno = 90 // PERFBUF_EMSGSIZE of bpf/perfbuf_output.h

// result returns the counter for outputs that returned -errno. The map's last entry counts every
// error from there on.
func result(c *kernel.CPUOutputs, errno, last int) *uint64 {
	if errno == last {
		return &c.Other
	}
	switch syscall.Errno(errno) {
	case 0:
		return &c.Written
	case syscall.ENOSPC:
		return &c.Full
	case syscall.ENOENT:
		return &c.NoRing
	case syscall.EBUSY:
		return &c.Nested
	case syscall.EOPNOTSUPP:
		return &c.Offline
	case syscall.E2BIG:
		return &c.NoEntry
	case tooLarge:
		return &c.TooLarge
	}
	return &c.Other
}
