package perfbuf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/inject"
	"github.com/ringfold/ringfold/internal/raw"
	"golang.org/x/sys/unix"
)

// Open sets up a ring for each CPU in the perf event array that mapFD refers to, and returns a
// reader of them. From then on outputs to the map land in the rings.
//
// mapFD may come from libbpfgo, cilium/ebpf, a pin or an id. It is duplicated; the caller may close its own.
//
// Open does not block. It fails with a [*MapError] for a map that cannot be read, a
// [*PermissionError] where privilege is lacking (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN before
// Linux 5.8), and otherwise with an error that wraps the errno. Nothing is left behind then. It
// calls perf_buffer__new_raw.
func Open(mapFD int, opts Options) (*Reader, error) {
	fd, info, err := dupMap(mapFD)
	if err != nil {
		return nil, err
	}
	r, err := open(fd, info, opts)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return r, nil
}

// dupMap duplicates a map's descriptor and makes sure that the map is one to read. libbpf keeps the
// descriptor it is given, so it must be one that stays open.
func dupMap(mapFD int) (int, mapEntries, error) {
	fail := func(err error) (int, mapEntries, error) { return -1, mapEntries{}, err }
	fd, err := unix.FcntlInt(uintptr(mapFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
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

// open sets up rings on fd, which becomes the reader's if it succeeds.
func open(fd int, m mapEntries, opts Options) (*Reader, error) {
	pb, opts, err := newPerfBuffer(fd, m, opts)
	if err != nil {
		return nil, err
	}
	var bells []int
	var noBells error
	if opts.Wakeup.doorbell() {
		if bells, noBells = openBells(pb, opts); noBells != nil {
			opts.Wakeup = Wakeup{Bytes: opts.watermark(), Linger: max(opts.Wakeup.Linger, defaultLinger)}
		}
	}
	layout := raw.LayoutRawTime
	if opts.NoTime {
		layout = raw.LayoutRaw
	}
	rings := make([]*Ring, len(opts.CPUs))
	for i, cpu := range opts.CPUs {
		// libbpf's ring i is that of the i-th CPU asked for.
		meta, data, err := pb.Buffer(i)
		var r *raw.Ring
		if err == nil {
			r, err = raw.New(meta, data, layout)
		}
		if err != nil {
			closeAll(bells)
			pb.Free()
			return nil, fmt.Errorf("perfbuf.Open: ring of CPU %d: %w", cpu, err)
		}
		rings[i] = newRing(cpu, r)
	}
	poll, err := newFilePoller(pb.EpollFD())
	if err != nil {
		closeAll(bells)
		pb.Free()
		return nil, fmt.Errorf("perfbuf.Open: %w", err)
	}
	r := newReader(rings, kernel{
		poll:  poll,
		clock: kernelClock(),
		grace: grace.Open,
		lost:  func(ring int) (uint64, bool) { return lost(pb, bells, ring) },
		slot:  func(ring int, to inject.Slot) error { return setSlot(fd, pb, bells, opts.CPUs[ring], ring, to) },
		unhook: func() {
			for _, cpu := range opts.CPUs {
				libbpf.MapDelete(fd, uint32(cpu)) // fails if somebody else did it
			}
			letGo(fd)
		},
		free: func() {
			closeAll(bells)
			pb.Free()
			unix.Close(fd)
		},
	}, opts)
	if noBells != nil {
		r.slots.failure.Store(&noBells)
	}
	poll.ready = r.ready
	return r, nil
}

// newPerfBuffer opens the perf events and maps the rings, and returns the options in effect.
func newPerfBuffer(fd int, m mapEntries, want Options) (*libbpf.PerfBuffer, Options, error) {
	for try := 1; ; try++ {
		online, err := onlineCPUs()
		if err != nil {
			return nil, want, err
		}
		cpus, err := want.pick(online, m)
		if err != nil {
			return nil, want, err
		}
		opts, err := want.effective(len(cpus))
		if err != nil {
			return nil, want, err
		}
		opts.CPUs = cpus
		attr := opts.attr()
		pb, err := libbpf.NewRaw(fd, opts.RingBytes/os.Getpagesize(), attr, cpus, cpus)
		if errors.Is(err, syscall.EINVAL) { // before Linux 6.0
			attr.Read_format = 0
			pb, err = libbpf.NewRaw(fd, opts.RingBytes/os.Getpagesize(), attr, cpus, cpus)
		}
		switch {
		case err == nil:
			return pb, opts, nil
		case errors.Is(err, syscall.ENODEV) && try < 5:
			// A CPU has gone offline since the list was read; one named by the user is then found
			// missing by pick.
		default:
			return nil, opts, explain(fmt.Errorf("perfbuf.Open: %w", err), opts.RingBytes)
		}
	}
}

// attr is the perf event behind each ring.
func (o Options) attr() *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Size:        unix.PERF_ATTR_SIZE_VER5, // the first with a clockid and all that follows it here; any kernel with BPF output takes it
		Config:      unix.PERF_COUNT_SW_BPF_OUTPUT,
		Sample:      1, // sample_period: every output is a sample
		Sample_type: unix.PERF_SAMPLE_RAW,
		Read_format: unix.PERF_FORMAT_LOST,
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

// lost reads how many outputs to a ring have failed for want of room: those of its perf event and
// those of its doorbell, if there is one.
func lost(pb *libbpf.PerfBuffer, bells []int, ring int) (n uint64, ok bool) {
	fd, err := pb.BufferFD(ring)
	if err != nil {
		return 0, false
	}
	if n, ok = lostOfEvent(fd); ok && bells != nil {
		var more uint64
		more, ok = lostOfEvent(bells[ring])
		n += more
	}
	return n, ok
}

// lostOfEvent is read(2) of a perf event with PERF_FORMAT_LOST (perf_read_one in
// kernel/events/core.c), Linux 6.0 or newer.
func lostOfEvent(fd int) (n uint64, ok bool) {
	var b [16]byte // the event's own count, which is always 0 here, and the losses
	if got, err := unix.Read(fd, b[:]); err != nil || got != len(b) {
		return 0, false // a kernel that does not count gives 8 bytes; an event whose CPU is gone may give none
	}
	return binary.NativeEndian.Uint64(b[8:]), true
}

// letGo makes fd refer to no map any more. perf_buffer__free deletes the rings' entries from its map
// some time after Close has, when another reader may have put its own there.
func letGo(fd int) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	unix.Dup3(null, fd, unix.O_CLOEXEC)
	unix.Close(null)
}

// linkName says what a descriptor refers to, as /proc does.
func linkName(fd int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "something else"
	}
	return strings.TrimPrefix(name, "anon_inode:")
}
