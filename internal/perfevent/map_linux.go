package perfevent

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// Map is a perf event array to open rings in. It implements kernel.Opener.
type Map struct {
	FD int // the user's descriptor, which Online duplicates
	// The kernel overwrites the rings: see mapRings. Nothing can wait for them.
	Overwrite bool

	fd    int
	info  host.Map
	watch *cpuWatch // nil: the descriptor is not duplicated yet
}

// RingBuf is false: these are perf rings.
func (m *Map) RingBuf() bool { return false }

// Online returns the CPUs that are online, if rings can be opened in the map.
func (m *Map) Online() (online []int, err error) {
	if err := host.Refuse32Bit(); err != nil {
		return nil, m.failed(err)
	}
	if m.watch == nil {
		if m.fd, m.info, err = host.DupMap(m.FD); err != nil {
			return nil, explain(m.failed(err), 0)
		}
		if err := checkType(m.info); err != nil {
			unix.Close(m.fd)
			return nil, err
		}
		m.watch = watchCPUs() // before reading the list
	}
	if online, err = cpulist.Online(cpulist.Dir); err != nil {
		err = m.failed(err)
		if errors.Is(err, syscall.EMFILE) {
			err = explain(err, 0)
		}
	}
	return online, err
}

// Close is for a Map whose Open has not succeeded.
func (m *Map) Close() {
	if m.watch != nil {
		m.watch.close()
		unix.Close(m.fd)
	}
}

// Open opens rings and stores them in the map, which then belongs to them. The error wraps ENODEV
// if a CPU has gone offline.
func (m *Map) Open(setup kernel.Setup) (kernel.Kernel, error) {
	p, err := openEvents(m, setup)
	if err != nil {
		var wrong *host.MapError
		if errors.As(err, &wrong) {
			return nil, err
		}
		return nil, explain(m.failed(err), setup.RingBytes)
	}
	return p, nil
}

func (m *Map) failed(err error) error {
	if m.Overwrite {
		return fmt.Errorf("flight.Open: %w", err)
	}
	return fmt.Errorf("perfbuf.Open: %w", err)
}
