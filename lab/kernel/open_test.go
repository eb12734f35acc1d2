//go:build linux && cgo

package kernel_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/internal/perfevent"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openFails requires that Open fails and leaves nothing behind.
func openFails(t *testing.T, fd int, opts perfbuf.Options) error {
	t.Helper()
	before := belongings(t)
	r, err := perfbuf.Open(fd, opts)
	require.Nil(t, r)
	require.Error(t, err)
	// What an earlier reader still had may be given back meanwhile
	require.LessOrEqual(t, len(belongings(t)), len(before))
	return err
}

func newMap(t *testing.T, typ libbpfgo.MapType, keySize, valueSize, maxEntries int) *libbpfgo.BPFMapLow {
	t.Helper()
	m, err := libbpfgo.CreateMap(typ, "made_by_a_test", keySize, valueSize, maxEntries, nil)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(m.FileDescriptor()) })
	return m
}

func TestKernelOpenWrongMap(t *testing.T) {
	e := kerneltest.Load(t)
	page := os.Getpagesize()
	for _, c := range []struct {
		fd   int
		name string
		text []string
	}{
		{e.ArrayFD(), "array", []string{"BPF_MAP_TYPE_ARRAY (2)", "BPF_MAP_TYPE_PERF_EVENT_ARRAY"}},
		{newMap(t, libbpfgo.MapTypeHash, 4, 8, 1).FileDescriptor(), "made_by_a_test", []string{"BPF_MAP_TYPE_HASH (1)"}},
		{newMap(t, libbpfgo.MapTypeLRUHash, 4, 8, 1).FileDescriptor(), "made_by_a_test", []string{"type 9"}},
		{newMap(t, libbpfgo.MapTypeRingbuf, 0, 0, page).FileDescriptor(), "made_by_a_test", []string{"BPF_MAP_TYPE_RINGBUF (27)", "perfbuf.OpenRingBuf"}},
	} {
		err := openFails(t, c.fd, perfbuf.Options{})
		var m *perfbuf.MapError
		require.ErrorAs(t, err, &m)
		require.Equal(t, c.name, m.Name)
		require.Positive(t, m.ID)
		require.Contains(t, err.Error(), c.name)
		for _, text := range c.text {
			require.Contains(t, err.Error(), text)
		}
	}
}

func TestKernelOpenNoMap(t *testing.T) {
	e := kerneltest.Load(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	r := open(t, e, perfbuf.Options{})
	closed, err := unix.Dup(int(file.Fd()))
	require.NoError(t, err)
	require.NoError(t, unix.Close(closed))

	for name, c := range map[string]struct {
		fd    int
		errno syscall.Errno
		text  string
	}{
		"program": {e.ProgFD(), syscall.EINVAL, "bpf-prog, not a BPF map"},
		"file":    {int(file.Fd()), syscall.EINVAL, "not a BPF map"},
		"-1":      {-1, syscall.EBADF, "-1 is not an open file descriptor"},
		"closed":  {closed, syscall.EBADF, "not an open file descriptor"},
		"absurd":  {math.MaxInt32, syscall.EBADF, "not an open file descriptor"},
	} {
		err := openFails(t, c.fd, perfbuf.Options{})
		require.ErrorIs(t, err, c.errno, name)
		require.ErrorContains(t, err, c.text, name)
	}
	file.Close()
	e.Emit(r.Rings()[0].CPU(), 1, 24)
	require.Len(t, collect(t, unordered(t, r)), 1, "other readers are not concerned")
}

func TestKernelOpenCPUs(t *testing.T) {
	e := kerneltest.Load(t)
	cpu := open(t, e, perfbuf.Options{}).Options().CPUs[0]
	for text, cpus := range map[string][]int{
		"CPU 65535 is not online":   {cpu, 65535},
		"CPU 1048576 is not online": {1 << 20},
		"CPU -1 is not online":      {-1},
		"listed twice":              {cpu, cpu},
	} {
		require.ErrorContains(t, openFails(t, e.MapFD(), perfbuf.Options{CPUs: cpus}), text)
	}
}

// A map with fewer entries than there are CPUs can be read for the CPUs that fit.
func TestKernelOpenSmallMap(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := open(t, e, perfbuf.Options{}).Options().CPUs
	last := cpus[len(cpus)-1]
	if last == 0 {
		t.Log("with one CPU there is no map too small")
		return
	}
	m := newMap(t, libbpfgo.MapTypePerfEventArray, 4, 4, last)
	err := openFails(t, m.FileDescriptor(), perfbuf.Options{})
	var me *perfbuf.MapError
	require.ErrorAs(t, err, &me)
	require.Equal(t, last, me.MaxEntries)
	require.Equal(t, int(libbpfgo.MapTypePerfEventArray), me.Type)
	require.Contains(t, err.Error(), "max_entries")

	r, err := perfbuf.Open(m.FileDescriptor(), perfbuf.Options{CPUs: cpus[:1]})
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

// The reader has a descriptor of its own.
func TestKernelOpenCallerCloses(t *testing.T) {
	e := kerneltest.Load(t)
	fd, err := unix.FcntlInt(uintptr(e.MapFD()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	r, err := perfbuf.Open(fd, perfbuf.Options{})
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	requireReads(t, e, r)
	require.NoError(t, r.Close())
	e.Emit(r.Rings()[0].CPU(), 1, 24)
	require.Equal(t, syscall.ENOENT, e.LastError(r.Rings()[0].CPU()), "Close takes the rings out of the map all the same")
}

// requireReads requires that outputs arrive.
func requireReads(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader) {
	t.Helper()
	s := unordered(t, r)
	defer s.Close()
	for _, ring := range r.Rings() {
		e.Emit(ring.CPU(), 2, 24)
		require.NoError(t, s.Wait(t.Context()))
		require.Len(t, collect(t, s), 2)
	}
}

// A map that somebody else has loaded, found by name and id.
func TestKernelOpenByID(t *testing.T) {
	e := kerneltest.Load(t)
	own, err := libbpfgo.GetMapInfoByFD(e.MapFD())
	require.NoError(t, err)
	var ids []uint32
	// Another process's map was gone when it was looked at
	for err = syscall.ENOENT; errors.Is(err, syscall.ENOENT); {
		start := uint32(0)
		ids, err = libbpfgo.GetMapsIDsByName("events", &start)
	}
	require.NoError(t, err)
	require.Contains(t, ids, own.ID)
	m, err := libbpfgo.GetMapByID(own.ID)
	require.NoError(t, err)
	require.NotEqual(t, e.MapFD(), m.FileDescriptor())
	r, err := perfbuf.Open(m.FileDescriptor(), perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, unix.Close(m.FileDescriptor()))
	requireReads(t, e, r)
}

// A map that is pinned.
func TestKernelOpenPinned(t *testing.T) {
	kerneltest.RequireRoot(t)
	e := kerneltest.Load(t)
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Logf("no bpffs to be had here, so no pin: %v", err)
		return
	}
	defer unix.Unmount(dir, 0)
	pin := filepath.Join(dir, "events")
	own, err := libbpfgo.GetMapInfoByFD(e.MapFD())
	require.NoError(t, err)
	// BPF_OBJ_PIN and BPF_OBJ_GET take struct { __aligned_u64 pathname; __u32 bpf_fd; __u32
	// file_flags; }.
	path, err := unix.BytePtrFromString(pin)
	require.NoError(t, err)
	obj := func(cmd uintptr, fd int) int {
		attr := struct {
			path      unsafe.Pointer
			fd, flags uint32
		}{unsafe.Pointer(path), uint32(fd), 0}
		n, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		require.Zero(t, errno)
		return int(n)
	}
	obj(unix.BPF_OBJ_PIN, e.MapFD())
	fd := obj(unix.BPF_OBJ_GET, 0)
	pinned, err := libbpfgo.GetMapInfoByFD(fd)
	require.NoError(t, err)
	require.Equal(t, own.ID, pinned.ID)
	r, err := perfbuf.Open(fd, perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, unix.Close(fd))
	requireReads(t, e, r)
}

// If Open cannot get a descriptor, it releases those it had, and the error names the fix.
func TestKernelOpenOutOfDescriptors(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{}) // also makes the runtime open its permanent descriptors
	cpu := r.Rings()[0].CPU()
	require.NoError(t, r.Close())
	before := atRest(t)
	openWith := scarceDescriptors(t)
	explained := 0
	for free := 0; ; free++ {
		r, err := openWith(free, e)
		if err == nil {
			require.NoError(t, r.Close())
			require.Greater(t, free, 3)
			break
		}
		require.ErrorIs(t, err, syscall.EMFILE)
		require.Equal(t, before, belongings(t), "%d free: %v", free, err)
		e.Emit(cpu, 1, 24)
		require.Equal(t, syscall.ENOENT, e.LastError(cpu), "a ring is still in the map")
		if strings.Contains(err.Error(), "ulimit -n") {
			explained++
		}
	}
	require.Positive(t, explained)
}

// Sizes are rounded to those that the kernel can map, and can be read back.
func TestKernelSizes(t *testing.T) {
	e := kerneltest.Load(t)
	page := os.Getpagesize()
	n := len(open(t, e, perfbuf.Options{}).Rings())
	for _, c := range []struct {
		opts perfbuf.Options
		want int
	}{
		{perfbuf.Options{}, 256 << 10},
		{perfbuf.Options{RingBytes: 1}, page},
		{perfbuf.Options{RingBytes: page - 1}, page},
		{perfbuf.Options{RingBytes: page}, page},
		{perfbuf.Options{RingBytes: page + 1}, 2 * page},
		{perfbuf.Options{RingBytes: 3 * page}, 4 * page},
		{perfbuf.Options{RingBytes: 1 << 20}, 1 << 20},
		{perfbuf.Options{RingBytes: 4 << 20}, 4 << 20},
		{perfbuf.Options{TotalBytes: n * page}, page},
		{perfbuf.Options{TotalBytes: 2*n*page - 1}, page},
		{perfbuf.Options{TotalBytes: 2 * n * page}, 2 * page},
		{perfbuf.Options{TotalBytes: 7 * n * page}, 4 * page},
	} {
		r := open(t, e, c.opts)
		got := r.Options()
		require.Equal(t, c.want, got.RingBytes, "%+v", c.opts)
		require.Zero(t, got.TotalBytes, "%+v", c.opts)
		require.Equal(t, perfbuf.Wakeup{PollInterval: 5 * time.Millisecond}, got.Wakeup)
		require.Len(t, got.CPUs, n)
		for i, ring := range r.Rings() {
			require.Equal(t, c.want, ring.Size())
			require.Equal(t, c.want, r.Stats().Rings[i].Size)
			require.Equal(t, got.CPUs[i], ring.CPU())
			// It really is that large: it takes as many outputs as fit, and not one more.
			const size = 4000
			if c.want > page {
				fit := (c.want - 1) / recordSize(size)
				_, before := e.Counts(ring.CPU())
				e.Emit(ring.CPU(), fit+1, size)
				_, after := e.Counts(ring.CPU())
				require.Equal(t, before+1, after, "%+v", c.opts)
			}
		}
		require.NoError(t, r.Close())
	}
}

func TestKernelBadOptions(t *testing.T) {
	e := kerneltest.Load(t)
	for _, opts := range []perfbuf.Options{
		{RingBytes: -1},
		{RingBytes: math.MinInt},
		{RingBytes: math.MaxInt},
		{RingBytes: 1 << 40},
		{RingBytes: 1<<30 + 1},
		{TotalBytes: -1},
		{TotalBytes: math.MinInt},
		{TotalBytes: 1},
		{TotalBytes: os.Getpagesize() - 1},
		{RingBytes: 4096, TotalBytes: 1 << 20},
		{Wakeup: perfbuf.Wakeup{Events: -1}},
		{Wakeup: perfbuf.Wakeup{Bytes: -1}},
		{Wakeup: perfbuf.Wakeup{PollInterval: -1}},
		{Wakeup: perfbuf.Wakeup{Events: 2, Bytes: 2}},
		{Wakeup: perfbuf.Wakeup{Events: math.MaxInt}},
		{Wakeup: perfbuf.Wakeup{Bytes: math.MaxInt}},
		{RingBytes: 8192, Wakeup: perfbuf.Wakeup{Bytes: 4097}},
	} {
		require.ErrorContains(t, openFails(t, e.MapFD(), opts), "perfbuf.Options: ", "%+v", opts)
	}
}

func TestKernelWakeupOptions(t *testing.T) {
	e := kerneltest.Load(t)
	for _, c := range []struct{ opt, want perfbuf.Wakeup }{
		{perfbuf.Wakeup{}, perfbuf.Wakeup{PollInterval: 5 * time.Millisecond}},
		{perfbuf.Wakeup{Events: 1, PollInterval: time.Second}, perfbuf.Wakeup{Events: 1}},
		{perfbuf.Wakeup{Events: 2}, perfbuf.Wakeup{Events: 2, PollInterval: 10 * time.Millisecond}},
		{perfbuf.Wakeup{Events: 2, PollInterval: time.Second}, perfbuf.Wakeup{Events: 2, PollInterval: time.Second}},
		{perfbuf.Wakeup{Bytes: 1}, perfbuf.Wakeup{Bytes: 1, PollInterval: 10 * time.Millisecond}},
		{perfbuf.Wakeup{Bytes: 128 << 10}, perfbuf.Wakeup{Bytes: 128 << 10, PollInterval: 10 * time.Millisecond}},
	} {
		r := open(t, e, perfbuf.Options{Wakeup: c.opt})
		require.Equal(t, c.want, r.Options().Wakeup)
		requireReads(t, e, r)
		require.NoError(t, r.Close())
	}
}

// What Options and Rings return is the caller's to change.
func TestKernelCopies(t *testing.T) {
	_, r := loadAndOpen(t, perfbuf.Options{})
	cpu := r.Options().CPUs[0]
	r.Options().CPUs[0] = 99
	r.Rings()[0] = nil
	require.Equal(t, cpu, r.Options().CPUs[0])
	require.Equal(t, cpu, r.Rings()[0].CPU())
}

// What Options name is the caller's to change too, once the reader is open.
func TestKernelOptionsAreCopied(t *testing.T) {
	kerneltest.RequireCPUs(t, 2, "one to read, and another")
	e := kerneltest.Load(t)
	all := open(t, e, perfbuf.Options{}).Options().CPUs
	cpus := []int{all[0]}
	r, plug := openPlug(t, perfevent.Map{FD: e.MapFD()}, perfbuf.Options{CPUs: cpus})
	cpus[0] = all[1]
	plug.change(t)
	require.Equal(t, all[:1], r.Options().CPUs)
}

// Before Linux 6.0 the kernel refuses events that count losses, and does with others.
func TestKernelWithoutLost(t *testing.T) {
	leak.Check(t)
	e := kerneltest.Load(t)
	var r *perfbuf.Reader
	var err error
	kerneltest.Fail(t, kerneltest.CallPerfEventOpen, syscall.EINVAL, only(1), func() {
		r, err = perfbuf.Open(e.MapFD(), perfbuf.Options{RingBytes: 4096})
	})
	require.NoError(t, err)
	emitOnAll(e, r, 300, 40)
	shut(t, r)
	for _, s := range r.Stats().Rings {
		attempted, failed := e.Counts(s.CPU)
		require.Equal(t, attempted-failed, s.Dropped)
		require.Zero(t, s.Lost, "no record reports them")
	}
}
