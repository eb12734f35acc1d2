//go:build cgo

package kerneltest

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a kind of system calls, to be made to fail.
type Call struct {
	name        string
	number      uint32
	arg         int    // the argument that distinguishes calls of that number:
	mask, value uint32 // arg & mask == value; or all, if these are 0
}

func (c Call) String() string { return c.name }

// Kinds of calls.
var (
	CallPerfEventOpen = Call{name: "perf_event_open", number: unix.SYS_PERF_EVENT_OPEN}
	CallMmapFile      = Call{name: "mmap of a file", number: unix.SYS_MMAP, arg: 4, mask: 1 << 31} // descriptor >= 0
	CallEpollCreate   = Call{name: "epoll_create1", number: unix.SYS_EPOLL_CREATE1}
	CallEventfd       = Call{name: "eventfd2", number: unix.SYS_EVENTFD2}
	CallEpollCtl      = Call{name: "epoll_ctl", number: unix.SYS_EPOLL_CTL}
	CallDup           = Call{name: "fcntl(F_DUPFD_CLOEXEC)", number: unix.SYS_FCNTL, arg: 1, mask: ^uint32(0), value: unix.F_DUPFD_CLOEXEC}
	CallSocket        = Call{name: "socket", number: unix.SYS_SOCKET}
	CallBind          = Call{name: "bind", number: unix.SYS_BIND}
)

// CallBPF is bpf(2) with one of its commands.
func CallBPF(command uint32, name string) Call {
	return Call{name: "bpf(" + name + ")", number: unix.SYS_BPF, mask: ^uint32(0), value: command}
}

// CallIoctl is ioctl(2) with a request.
func CallIoctl(request uint32, name string) Call {
	return Call{name: "ioctl(" + name + ")", number: unix.SYS_IOCTL, arg: 1, mask: ^uint32(0), value: request}
}

// Fail runs f in its own goroutine and thread. It fails those of f's calls of one kind that which
// selects by number, from 1 on. The kernel does nothing for them, and f gets the errno. Fail
// returns the number of calls of that kind. Calls from C code in f count; calls from goroutines
// that f starts do not.
//
// It uses seccomp_unotify(2). Where that is unavailable, the test is skipped, or fails: see
// Require.
func Fail(t testing.TB, call Call, errno syscall.Errno, which func(n int) bool, f func()) (calls int) {
	t.Helper()
	// The thread may be in one of the runtime's own calls, which waits for an answer. The collector
	// stops the world and would wait for that call, but the answering goroutine needs the world to
	// run. So turn the collector off.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if n := runtime.GOMAXPROCS(0); n < 2 {
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(n)
	}
	runtime.GC() // ends one that has begun

	s := &supervisor{errno: errno, which: which}
	var over [2]int // closed by the thread when it makes no more calls
	if err := unix.Pipe2(over[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(over[0])
	listener, refused, ended := make(chan int), make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		defer unix.Close(over[1])
		runtime.LockOSThread() // never unlocked: the filter, which stays, ends with the thread
		fd, err := filter(call)
		if err != nil {
			refused <- err
			return
		}
		listener <- fd
		f()
	}()
	select {
	case fd := <-listener:
		if err := s.serve(fd, over[0]); err != nil {
			t.Errorf("supervising %v: %v", call, err)
		}
		unix.Close(fd) // such calls fail with ENOSYS from now on
		<-ended
	case err := <-refused:
		<-ended
		unable(t, fmt.Sprintf("needs a seccomp filter with user notification: %v", err))
	}
	return s.calls
}

// filter makes calls of this thread wait for an answer, and returns the descriptor to read and
// answer them with.
func filter(call Call) (int, error) {
	const ( // offsets in struct seccomp_data
		number = 0
		args   = 16
	)
	load := func(offset int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(offset)}
	}
	// unless skips instructions if the loaded value is not k.
	unless := func(k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: k}
	}
	program := []unix.SockFilter{
		load(number),
		unless(call.number, 4),
		load(args + 8*call.arg), // its lower half, on a little-endian machine
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: call.mask},
		unless(call.value, 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // of this thread
		return -1, err
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})))
	runtime.KeepAlive(program)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// supervisor answers the calls of a thread.
type supervisor struct {
	errno syscall.Errno
	which func(n int) bool
	calls int
}

// notification is struct seccomp_notif.
type notification struct {
	id         uint64
	pid, flags uint32
	data       [64]byte
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// serve answers until the other descriptor is at its end.
func (s *supervisor) serve(listener, over int) error {
	fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}, {Fd: int32(over), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return os.NewSyscallError("poll", err)
		case fds[1].Revents != 0:
			return nil
		}
		if err := s.answer(listener); err != nil && err != unix.EINTR && err != unix.ENOENT { // a signal
			return fmt.Errorf("call %d: %w", s.calls+1, err)
		}
	}
}

func (s *supervisor) answer(listener int) error {
	var call notification // all zero, as the kernel wants it
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call))); errno != 0 {
		return errno
	}
	a := answer{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if s.which(s.calls + 1) {
		a = answer{id: call.id, errno: -int32(s.errno)}
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a))); errno != 0 {
		return errno // and if the thread was called away, it comes again
	}
	s.calls++
	return nil
}
