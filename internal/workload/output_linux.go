package workload

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxCount is how many events one run of a program outputs at most. Output splits larger counts.
const MaxCount = 512

// Flags of bpf_ringbuf_output.
const (
	NoWakeup    = 1 << 0
	ForceWakeup = 1 << 1
)

// Output is what to output, and where.
type Output struct {
	Count, Size int    // events, and bytes of each
	To          Map    // or Spread
	Flags       uint64 // of bpf_ringbuf_output
	Every       int    // of stamped ones: discard those whose number is a multiple of it; 0: none
}

// On runs a program's descriptor on a CPU until it has output all. On another CPU than the caller's
// the kernel runs it in an interrupt there. That outputs are refused is not an error.
func (o Output) On(prog, cpu int) error {
	for count := o.Count; count > 0; count -= MaxCount {
		o.Count = min(count, MaxCount)
		if err := testRun(prog, cpu, o); err != nil {
			return fmt.Errorf("output of %d bytes on CPU %d: %w", o.Size, cpu, err)
		}
	}
	return nil
}

// attr is the beginning of union bpf_attr.test of include/uapi/linux/bpf.h, and what it points to.
type attr struct {
	prog, retval            uint32
	dataSizeIn, dataSizeOut uint32
	dataIn, dataOut         uint64
	repeat, duration        uint32
	ctxSizeIn, ctxSizeOut   uint32
	ctxIn, ctxOut           uint64
	flags, cpu              uint32
	ctx                     [5]uint64
}

// here is the caller's CPU: no interrupt, so that its process is the current one.
const here = -1

// attrs live on the heap, where they do not move.
var attrs = sync.Pool{New: func() any { return new(attr) }}

// testRun calls BPF_PROG_TEST_RUN. Unlike libbpfgo's call it does not allocate, and takes a program
// that another process has loaded.
func testRun(prog, cpu int, o Output) error {
	const (
		progTestRun  = 10 // BPF_PROG_TEST_RUN
		testRunOnCPU = 1  // BPF_F_TEST_RUN_ON_CPU
	)
	a := attrs.Get().(*attr)
	defer attrs.Put(a)
	*a = attr{prog: uint32(prog)}
	if cpu != here {
		a.flags, a.cpu = testRunOnCPU, uint32(cpu)
	}
	a.ctx = [...]uint64{uint64(o.Count), uint64(o.Size), uint64(o.To), o.Flags, uint64(o.Every)}
	a.ctxIn, a.ctxSizeIn = uint64(uintptr(unsafe.Pointer(&a.ctx))), uint32(unsafe.Sizeof(a.ctx))
	_, _, errno := unix.Syscall(unix.SYS_BPF, progTestRun, uintptr(unsafe.Pointer(a)), unsafe.Offsetof(a.ctx))
	if errno != 0 {
		return errno
	}
	if ret := int32(a.retval); ret < 0 {
		return unix.Errno(-ret)
	}
	return nil
}
