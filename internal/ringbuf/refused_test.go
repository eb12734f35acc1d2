//go:build linux && cgo

package ringbuf

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// failure is the error of opening a map, which leaves nothing behind.
func failure(t *testing.T, fd int, lanes kernel.Lanes) error {
	t.Helper()
	o := Opener{FD: fd}
	_, first := o.Online()
	o.Close()
	_, err := o.Open(kernel.Setup{Lanes: lanes})
	require.Error(t, err)
	if first != nil && !errors.As(err, new(*host.PermissionError)) {
		require.Equal(t, first, err)
	}
	o.Close()
	return err
}

func bpfCall(t *testing.T, cmd uintptr, attr []uint32) int {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(unsafe.Pointer(&attr[0])), uintptr(4*len(attr)))
	require.Zero(t, errno)
	return int(fd)
}

// What cannot be read is refused, with its name and what to do.
func TestKernelRefusals(t *testing.T) {
	events := kerneltest.Load(t)
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	arrays, err := libbpfgo.CreateMap(libbpfgo.MapTypeArrayOfMaps, "arrays", 4, 4, 1, &libbpfgo.BPFMapCreateOpts{InnerMapFD: uint32(events.ArrayFD())})
	require.NoError(t, err)
	defer syscall.Close(arrays.FileDescriptor())
	key, value := uint32(0), uint32(events.ArrayFD())
	require.NoError(t, arrays.Update(unsafe.Pointer(&key), unsafe.Pointer(&value)))
	leak.Check(t)

	for _, c := range []struct {
		fd   int
		says []string
	}{
		{events.MapFD(), []string{`map "events"`, "BPF_MAP_TYPE_PERF_EVENT_ARRAY (4)", "with perfbuf.Open"}},
		{events.ArrayFD(), []string{`map "array"`, "BPF_MAP_TYPE_ARRAY (2)", "only BPF_MAP_TYPE_RINGBUF (27)"}},
		{e.GroupsFD(), []string{`map "groups"`, "it contains no maps yet"}},
		{arrays.FileDescriptor(), []string{`map "array"`, "BPF_MAP_TYPE_ARRAY (2)"}},
	} {
		err := func() error { o := Opener{FD: c.fd}; _, err := o.Open(kernel.Setup{}); o.Close(); return err }()
		require.ErrorAs(t, err, new(*host.MapError))
		for _, s := range c.says {
			require.ErrorContains(t, err, s)
		}
	}
	require.ErrorContains(t, failure(t, -1, kernel.Lanes{}), "perfbuf.OpenRingBuf: map fd -1 is not an open file descriptor")
	require.ErrorContains(t, failure(t, events.ProgFD(), kernel.Lanes{}), "is bpf-prog, not a BPF map")
	for _, fd := range []int{e.MapFD(), events.ArrayFD()} {
		err := failure(t, e.MapFD(), kernel.Lanes{MapFD: fd})
		require.ErrorAs(t, err, new(*host.MapError))
		require.ErrorContains(t, err, "PERFBUF_LANES of bpf/perfbuf_lanes.h")
	}
	unmappable, err := libbpfgo.CreateMap(libbpfgo.MapTypeArray, "losses", 4, 64, 1, nil)
	require.NoError(t, err)
	lanes := kernel.Lanes{MapFD: unmappable.FileDescriptor()}
	require.ErrorContains(t, failure(t, e.MapFD(), lanes), "BPF_F_MMAPABLE (0x400)")
	syscall.Close(lanes.MapFD)
	over, err := libbpfgo.CreateMap(libbpfgo.MapTypeRingbuf, "over", 0, 0, 4096, &libbpfgo.BPFMapCreateOpts{MapFlags: bpf.FlagOverwrite})
	require.Equal(t, kerneltest.AtLeast(t, 6, 19), err == nil, "%v", err)
	if err == nil {
		require.ErrorContains(t, failure(t, over.FileDescriptor(), kernel.Lanes{}), `map "over"`)
		syscall.Close(over.FileDescriptor())
	}
	var plain, flight Opener
	flight.Overwrite = true
	require.ErrorContains(t, plain.checkRingBuf(host.Map{Name: "events", Type: 27, Flags: bpf.FlagOverwrite}), "flight.Open")
	require.ErrorContains(t, flight.checkRingBuf(host.Map{Name: "events", Type: 27}), "lacks the flag BPF_F_RB_OVERWRITE")
	require.ErrorContains(t, plain.checkRingBuf(host.Map{Name: "events", Type: 31}), "user space writes")
}

// A map that may only be read, or is frozen, cannot be read: how far that has got is written to it.
func TestKernelReadOnly(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	fd := kerneltest.NewRingBuf(t, 4096)
	const (
		bpfMapGetFDByID = 14
		bpfMapFreeze    = 22
		readOnly        = 1 << 3
	)
	_, m, err := func() (int, host.Map, error) { fd, m, err := host.DupMap(fd); unix.Close(fd); return fd, m, err }()
	require.NoError(t, err)
	only := bpfCall(t, bpfMapGetFDByID, []uint32{uint32(m.ID), 0, readOnly})
	defer unix.Close(only)
	says := func(fd int, says string) {
		t.Helper()
		err := failure(t, fd, kernel.Lanes{})
		require.IsType(t, new(host.PermissionError), err)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorContains(t, err, `perfbuf.OpenRingBuf: mmap of the consumer's page of map "shard"`)
		require.ErrorContains(t, err, says)
	}
	says(only, "BPF_F_RDONLY")
	bpfCall(t, bpfMapFreeze, []uint32{uint32(fd)})
	says(fd, "the map is frozen")
	require.NotZero(t, e.MapFD())
}

// One ring buffer takes no capability. Those in a map of maps do, and the error says which.
func TestKernelUnprivileged(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	e.SetShard(0, e.MapFD())
	var shared, shards error
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread is not to be used again
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := unix.Capget(&hdr, &data[0])
		data[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
		if err == nil {
			err = unix.Capset(&hdr, &data[0])
		}
		if err == nil {
			o := Opener{FD: e.MapFD()}
			var k kernel.Kernel
			if k, shared = o.Open(kernel.Setup{}); shared == nil {
				k.Free()
			}
			o = Opener{FD: e.ShardsFD()}
			_, shards = o.Open(kernel.Setup{})
			o.Close()
		}
		done <- err
	}()
	require.NoError(t, <-done)
	require.NoError(t, shared)
	require.IsType(t, new(host.PermissionError), shards)
	p := shards.(*host.PermissionError)
	require.Equal(t, []string{"CAP_SYS_ADMIN"}, p.Missing)
	require.Equal(t, os.Geteuid(), p.UID)
	require.ErrorContains(t, shards, `perfbuf.OpenRingBuf: bpf(BPF_MAP_GET_FD_BY_ID)`)
	require.ErrorContains(t, shards, `opening the maps in map "shards"`)
	require.ErrorContains(t, shards, "perfbuf.Merge")
}

func TestExplained(t *testing.T) {
	for errno, says := range map[syscall.Errno]string{
		syscall.EMFILE: "each ring buffer takes a file descriptor", syscall.ENOMEM: "address space", syscall.ENOSYS: "CONFIG_BPF_SYSCALL", syscall.EPERM: "uid",
	} {
		require.ErrorIs(t, explain(errno), errno)
		require.ErrorContains(t, explain(errno), says)
	}
	require.Equal(t, syscall.EINVAL, explain(syscall.EINVAL))
}
