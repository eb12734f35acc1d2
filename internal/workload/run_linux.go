package workload

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Output outputs on a CPU. It may be called for different CPUs at the same time.
func (p *Programs) Output(cpu int, o Output) error { return o.On(p.ProgFD("run"), cpu) }

// Stamped reserves records of StampedSize bytes in Shared, stamps and submits them.
func (p *Programs) Stamped(cpu int, o Output) error { return o.On(p.ProgFD("stamped"), cpu) }

// StampedCopy outputs a stamped copy of StampedSize bytes to Shared, and returns what that did.
func (p *Programs) StampedCopy(cpu int) error {
	return testRun(p.ProgFD("stamped_copy"), cpu, Output{})
}

// Bare outputs the pattern itself once, without a header, and uncounted. It returns what that did:
// nil or an errno.
func (p *Programs) Bare(cpu, size int, to Map) error {
	return testRun(p.ProgFD("bare"), cpu, Output{Size: size, To: to})
}

// Aim has the programs of Attach and Tick output to a map, or to all of them: Spread. If adopt is
// set, this process is the reader from now on, whose own doings these programs leave out.
func (p *Programs) Aim(to Map, adopt bool) error {
	o := Output{Count: int(to)}
	if adopt {
		o.Size = 1
	}
	return testRun(p.ProgFD("control"), here, o)
}

// Attach starts programs. A kernel may lack some sources, but not all.
func (p *Programs) Attach(sources ...Source) error {
	var missing error
	for _, s := range sources {
		link, err := p.object.Attach("on_" + s.String())
		if err != nil {
			missing = errors.Join(missing, fmt.Errorf("attaching %s: %w", s, err))
			continue
		}
		p.links = append(p.links, link)
	}
	if len(p.links) == 0 {
		return missing
	}
	if missing != nil {
		fmt.Fprintln(os.Stderr, "workload: without some sources:", missing)
	}
	return nil
}

// Attached reports whether programs are attached.
func (p *Programs) Attached() bool { return len(p.links) > 0 }

// Detach detaches all. Programs that are running then go on to their end.
func (p *Programs) Detach() (errs error) {
	for _, link := range p.links {
		errs = errors.Join(errs, link())
	}
	p.links = nil
	return errs
}

// Tick has a timer's interrupt output on these CPUs, as often as each period of their time, until
// stop.
func (p *Programs) Tick(cpus []int, period time.Duration) (stop func(), err error) {
	var fds []int
	stop = sync.OnceFunc(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(period),
			Size: unix.PERF_ATTR_SIZE_VER5, Bits: unix.PerfBitDisabled,
		}, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err == nil {
			fds = append(fds, fd)
			err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, p.ProgFD("on_tick"))
		}
		if err == nil {
			err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("a timer on CPU %d: %w", cpu, err)
		}
	}
	return stop, nil
}
