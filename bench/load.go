package main

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	"golang.org/x/sys/unix"
)

//go:embed emit.bpf.o
var emitObject []byte

// maxCount is how many events one run of a program outputs at most.
const maxCount = 1024

// collection is the loaded object: programs and maps of their own for each reader, so that all of
// them can be open at the same time.
type collection struct {
	module  *libbpfgo.Module
	prog    int // what outputs: to the perf event array, or to the ring buffer
	events  *libbpfgo.BPFMap
	ringbuf *libbpfgo.BPFMap
	states  *libbpfgo.BPFMap
}

// load loads a collection for a reader. A ring buffer that is read beside perf event arrays has as many bytes in all as
// their rings have together, rounded up to a power of two.
func load(reader string, o options) (*collection, error) {
	quiet()
	m, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: emitObject, BPFObjName: "emit", SkipMemlockBump: true})
	if err != nil {
		return nil, fmt.Errorf("opening emit.bpf.o: %w", err)
	}
	c := &collection{module: m}
	if err := c.load(reader, o); err != nil {
		m.Close()
		return nil, fmt.Errorf("loading emit.bpf.o (that takes root, or CAP_BPF and CAP_PERFMON): %w", err)
	}
	return c, nil
}

func (c *collection) load(reader string, o options) (err error) {
	name, other := "emit", "emit_ringbuf"
	if c.ringbuf, err = c.module.GetMap("ringbuf"); err != nil {
		return err
	}
	if o.ringBuf || reader == ciliumRingbuf {
		name, other = other, name
		total := o.ringBytes
		for !o.ringBuf && total < o.ringBytes*len(cpus) {
			total *= 2
		}
		if err := c.ringbuf.SetMaxEntries(uint32(total)); err != nil {
			return err
		}
	}
	unused, err := c.module.GetProgram(other)
	if err != nil {
		return err
	}
	if err := unused.SetAutoload(false); err != nil {
		return err
	}
	if err := c.module.BPFLoadObject(); err != nil {
		return err
	}
	prog, err := c.module.GetProgram(name)
	if err != nil {
		return err
	}
	c.prog = prog.FileDescriptor()
	if c.events, err = c.module.GetMap("events"); err != nil {
		return err
	}
	c.states, err = c.module.GetMap("states")
	return err
}

func (c *collection) close() { c.module.Close() }

// outputs is what the programs of a collection have done, on all CPUs.
type outputs struct{ attempted, failed, ns uint64 }

func (o outputs) since(before outputs) outputs {
	return outputs{o.attempted - before.attempted, o.failed - before.failed, o.ns - before.ns}
}

// outputs reads the counters. They are exact while no program runs.
func (c *collection) outputs() (o outputs, err error) {
	key := uint32(0)
	b, err := c.states.GetValue(unsafe.Pointer(&key))
	if err != nil {
		return o, fmt.Errorf("reading the programs' counters: %w", err)
	}
	const size = (3 + 1024) * 8 // struct state of emit.bpf.c
	for ; len(b) >= size; b = b[size:] {
		o.attempted += binary.NativeEndian.Uint64(b)
		o.failed += binary.NativeEndian.Uint64(b[8:])
		o.ns += binary.NativeEndian.Uint64(b[16:])
	}
	return o, nil
}

// patience is how long nothing may happen before that is a hang. A busy machine starts processes slowly, and readers have to share it.
const patience = time.Minute

// awaitOutputs waits until outputs have succeeded since those before, and returns the counters.
func (c *collection) awaitOutputs(before outputs) (o outputs, err error) {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if o, err = c.outputs(); err != nil {
			return o, err
		}
		if d := o.since(before); d.attempted > d.failed {
			return o, nil
		} else if time.Now().After(end) {
			return o, fmt.Errorf("no output succeeded, of %d in %v", d.attempted, patience)
		}
	}
}

// emit outputs count events of size bytes on a CPU. On another one than the caller's, the kernel
// runs the program in an interrupt there.
func emit(prog, cpu, count, size int) error {
	for count > 0 {
		n := min(count, maxCount)
		if err := testRun(prog, cpu, [2]uint64{uint64(n), uint64(size)}); err != nil {
			return fmt.Errorf("running the program on CPU %d: %w", cpu, err)
		}
		count -= n
	}
	return nil
}

// testRun calls BPF_PROG_TEST_RUN. libbpfgo's own call takes a program that this process has
// loaded, and allocates.
func testRun(prog, cpu int, args [2]uint64) error {
	const (
		progTestRun  = 10 // BPF_PROG_TEST_RUN
		testRunOnCPU = 1  // BPF_F_TEST_RUN_ON_CPU
	)
	// The beginning of union bpf_attr.test of include/uapi/linux/bpf.h.
	attr := struct {
		prog, retval            uint32
		dataSizeIn, dataSizeOut uint32
		dataIn, dataOut         uint64
		repeat, duration        uint32
		ctxSizeIn, ctxSizeOut   uint32
		ctxIn, ctxOut           uint64
		flags, cpu              uint32
	}{
		prog: uint32(prog), ctxSizeIn: uint32(unsafe.Sizeof(args)),
		ctxIn: uint64(uintptr(unsafe.Pointer(&args))), flags: testRunOnCPU, cpu: uint32(cpu),
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, progTestRun, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(&args) // the kernel read it by the address in attr
	if errno != 0 {
		return errno
	}
	if ret := int32(attr.retval); ret < 0 {
		return syscall.Errno(-ret)
	}
	return nil
}

// cpus are those that this process may run on, and on which events are output.
var cpus = func() (list []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return []int{0}
	}
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			list = append(list, c)
		}
	}
	return list
}()

// pin keeps the caller's goroutine on a CPU, until it calls what is returned.
func pin(cpu int) (unpin func(), err error) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return nil, fmt.Errorf("staying on CPU %d: %w", cpu, err)
	}
	return func() {
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with its goroutine
	}, nil
}

// quiet keeps libbpf's messages below warnings to itself.
var quiet = sync.OnceFunc(func() {
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: func(level int, msg string) {
		if level <= libbpfgo.LibbpfWarnLevel {
			fmt.Fprint(os.Stderr, msg)
		}
	}})
})
