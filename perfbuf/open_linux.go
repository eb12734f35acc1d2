package perfbuf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/grace"
	"golang.org/x/sys/unix"
)

// Open sets up a ring for each CPU in the perf event array that mapFD refers to, and returns a
// reader of them. From then on outputs to the map land in the rings.
//
// mapFD may come from libbpfgo, cilium/ebpf, a pin or an id. It is duplicated; the caller may close its own.
//
// Open does not block. It fails with a [*MapError] for a map that cannot be read, a
// [*PermissionError] where privilege is lacking (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN before
// Linux 5.8), in 32-bit programs with an error that wraps [errors.ErrUnsupported], and otherwise with
// one that wraps the errno. It refuses a process that is in a time namespace and has unshared another one, as
// nothing tells the offset of its clock then. Nothing is left behind when it fails. It calls
// perf_buffer__new_raw.
func Open(mapFD int, opts Options) (*Reader, error) {
	if strconv.IntSize < 64 {
		return nil, err32Bit
	}
	fd, info, err := dupMap(mapFD)
	if err != nil {
		return nil, err
	}
	return open(fd, info, opts)
}

// err32Bit refuses 32-bit programs, which alone run on 32-bit kernels. There data_head is an unsigned long
// (perf_output_put_handle, kernel/events/ring_buffer.c), and starts anew after 4 GiB.
var err32Bit = fmt.Errorf("perfbuf.Open: this is a 32-bit program (GOARCH=%s), and 32-bit kernels count a ring's bytes to 4 GiB only: "+
	"build for a 64-bit GOARCH, such as amd64 or arm64: %w", runtime.GOARCH, errors.ErrUnsupported)

// dupMap duplicates a map's descriptor and makes sure that the map is one to read. libbpf keeps the
// descriptor it is given, so it must be one that stays open.
func dupMap(mapFD int) (int, mapEntries, error) {
	fail := func(err error) (int, mapEntries, error) { return -1, mapEntries{}, err }
	fd, err := unix.FcntlInt(uintptr(mapFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		if !errors.Is(err, syscall.EBADF) {
			return fail(explain(fmt.Errorf("perfbuf.Open: duplicating map fd %d: %w", mapFD, err), 0))
		}
		return fail(fmt.Errorf("perfbuf.Open: map fd %d is not an open file descriptor: %w", mapFD, err))
	}
	info, err := libbpf.GetMapInfo(fd)
	name := linkName(fd)
	switch m := mapEntries(info); {
	case errors.Is(err, syscall.EINVAL), err == nil && name != "bpf-map" && strings.HasPrefix(name, "bpf-"):
		// The kernel also answers for programs and links, in structs of their own.
		err = fmt.Errorf("perfbuf.Open: fd %d is %s, not a BPF map: pass the map's descriptor: %w", mapFD, name, syscall.EINVAL)
	case err != nil:
		err = explain(fmt.Errorf("perfbuf.Open: %w", err), 0)
	default:
		if err = m.check(); err == nil {
			return fd, m, nil
		}
	}
	unix.Close(fd)
	return fail(err)
}

// open sets up rings on fd, which becomes the reader's.
func open(fd int, m mapEntries, want Options) (*Reader, error) {
	watch := watchCPUs() // before the list of those online is read
	p, err := openPerfEvents(fd, m, want)
	if err != nil {
		watch.close()
		unix.Close(fd)
		return nil, err
	}
	r, err := p.reader(watch)
	if err != nil {
		watch.close()
		p.free()
		return nil, explain(fmt.Errorf("perfbuf.Open: %w", err), 0)
	}
	return r, nil
}

// reader makes a reader of the rings, and stores them in the user's map.
func (p *perfEvents) reader(watch *cpuWatch) (*Reader, error) {
	clock, err := kernelClock()
	if err != nil {
		return nil, err
	}
	rings := make([]*Ring, len(p.rings))
	for i := range rings {
		memory, err := p.ring(&p.rings[i])
		if err != nil {
			return nil, fmt.Errorf("ring of CPU %d: %w", p.rings[i].cpu, err)
		}
		rings[i] = newRing(p.rings[i].cpu, memory)
	}
	poll, err := newFilePoller(p.rings[0].pb.EpollFD())
	if err != nil {
		return nil, err
	}
	if p.outputs, err = openOutputs(p.opts.Outputs); err != nil { // before there are rings in the map
		poll.close()
		return nil, err
	}
	opts := p.opts
	var noBells error
	if opts.Wakeup.doorbell() { // last, as it can do without descriptors
		if noBells = p.openBells(); noBells != nil {
			opts.Wakeup = Wakeup{Bytes: opts.watermark(), PollInterval: max(opts.Wakeup.PollInterval, defaultPollInterval)}
		}
	}
	displaced, err := p.store()
	if err != nil {
		poll.close()
		return nil, err
	}
	r := newReader(rings, kernel{
		poll:    poll,
		clock:   clock,
		grace:   grace.Open,
		lost:    p.lost,
		outputs: p.outputs,
		slot:    p.set,
		plug:    p,
		cpus:    p.possible(),
		unhook:  p.unhook,
		free:    p.free,
	}, opts)
	if noBells != nil {
		r.slots.failure.Store(&noBells)
	}
	r.displaced = displaced
	poll.ready = r.ready
	r.follow(watch)
	r.cleanUp()
	return r, nil
}

// attr is the perf event behind each ring.
func (o Options) attr() *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Size:        unix.PERF_ATTR_SIZE_VER5, // the first with a clockid and all that follows it here; any kernel with BPF output takes it
		Config:      unix.PERF_COUNT_SW_BPF_OUTPUT,
		Sample:      1, // sample_period: every output is a sample
		Sample_type: unix.PERF_SAMPLE_RAW,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_LOST,
		Wakeup:      uint32(o.Wakeup.Events),
	}
	if !o.NoTime {
		a.Sample_type |= unix.PERF_SAMPLE_TIME
		// The default clock of perf is not comparable between CPUs. sample_id_all gives losses a time too.
		a.Bits |= unix.PerfBitSampleIDAll | unix.PerfBitUseClockID
		a.Clockid = unix.CLOCK_MONOTONIC
	}
	if bytes := o.watermark(); bytes > 0 {
		a.Bits |= unix.PerfBitWatermark
		a.Wakeup = uint32(bytes)
	}
	return a
}

// linkName says what a descriptor refers to, as /proc does.
func linkName(fd int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "something else"
	}
	return strings.TrimPrefix(name, "anon_inode:")
}
