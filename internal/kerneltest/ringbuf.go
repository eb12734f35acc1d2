//go:build linux && cgo

package kerneltest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	"golang.org/x/sys/unix"
)

//go:embed ringbuf.bpf.o
var ringbufObject []byte

// Where payloads of a RingEmitter have their time, 8 bytes, and their CPU, 4 bytes.
const (
	RingTimeAt = 24
	RingCPUAt  = 12 // on little-endian machines
)

// Of RingEmit: flags of bpf_ringbuf_output.
const (
	NoWakeup    = 1 << 0
	ForceWakeup = 1 << 1
)

// StampedSize is the size of the payloads of RingEmit.Stamped and Hold.
const StampedSize = 64

// RingEmitter is a loaded program that outputs to BPF ring buffers: see ringbuf.bpf.c.
type RingEmitter struct {
	*Emitter // of which only what is not of perf events works: Counts, LastError, Module
}

// RingOptions say how to load a RingEmitter.
type RingOptions struct {
	Bytes  int // of the shared ring buffer; 0: 64 KiB
	Shards int // entries of the array of shards, and of the hash of groups; 0: 8
	// Hold loads the program that holds a record. The test is skipped without what that takes.
	Hold bool
	// Interrupt loads the program that outputs in interrupts.
	Interrupt bool
}

// RingEmit is what to output, and where.
type RingEmit struct {
	Count, Size int    // Size is at least 32
	Flags       uint64 // of bpf_ringbuf_output
	To          string // "shared", "shard" (that of the CPU, in an array), "group" (that of CPU/2, in a hash with keys of 8 bytes); "": shared
	Stamped     bool   // reserve StampedSize bytes in the shared one and stamp them, instead
	Every       int    // of these, discard those whose number is a multiple of it; 0: none
}

// LoadRings loads the program and unloads it when the test ends. See Load.
func LoadRings(t testing.TB, opts RingOptions) *RingEmitter {
	t.Helper()
	Require(t)
	if opts.Hold {
		RequireLinux(t, 5, 15, "programs of type syscall that use ring buffers")
	}
	quiet()
	m, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: ringbufObject, BPFObjName: "ringbuf", SkipMemlockBump: true})
	if err != nil {
		t.Fatalf("opening ringbuf.bpf.o: %v", err)
	}
	t.Cleanup(m.Close)
	e := &RingEmitter{&Emitter{t: t, module: m}}
	for name, entries := range map[string]int{"shared": opts.Bytes, "shards": opts.Shards, "groups": opts.Shards} {
		if entries > 0 {
			if err := e.mapNamed(name).SetMaxEntries(uint32(entries)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, wanted := range map[string]bool{"hold": opts.Hold, "interrupt": opts.Interrupt} {
		if err := e.program(name).SetAutoload(wanted); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.BPFLoadObject(); err != nil {
		t.Fatalf("loading ringbuf.bpf.o: %v", err)
	}
	e.states = e.mapNamed("states")
	e.setPattern()
	return e
}

func (e *RingEmitter) mapNamed(name string) *libbpfgo.BPFMap {
	e.t.Helper()
	m, err := e.module.GetMap(name)
	if err != nil {
		e.t.Fatal(err)
	}
	return m
}

func (e *RingEmitter) program(name string) *libbpfgo.BPFProg {
	e.t.Helper()
	prog, err := e.module.GetProgram(name)
	if err != nil {
		e.t.Fatal(err)
	}
	return prog
}

// MapFD is the shared ring buffer.
func (e *RingEmitter) MapFD() int { return e.mapNamed("shared").FileDescriptor() }

// ShardsFD is the array of shards, empty at first.
func (e *RingEmitter) ShardsFD() int { return e.mapNamed("shards").FileDescriptor() }

// GroupsFD is the hash of shards, empty at first.
func (e *RingEmitter) GroupsFD() int { return e.mapNamed("groups").FileDescriptor() }

// LossesFD is the map that perfbuf_ringbuf.h counts in.
func (e *RingEmitter) LossesFD() int { return e.mapNamed("losses").FileDescriptor() }

// NewRingBuf creates a ring buffer, which is closed when the test ends.
func NewRingBuf(t testing.TB, bytes int) (fd int) {
	t.Helper()
	m, err := libbpfgo.CreateMap(libbpfgo.MapTypeRingbuf, "shard", 0, 0, bytes, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(m.FileDescriptor()) })
	return m.FileDescriptor()
}

// SetShard stores a ring buffer in the array of shards, for a CPU.
func (e *RingEmitter) SetShard(cpu, fd int) {
	e.t.Helper()
	key, value := uint32(cpu), uint32(fd)
	if err := e.mapNamed("shards").Update(unsafe.Pointer(&key), unsafe.Pointer(&value)); err != nil {
		e.t.Fatal(err)
	}
}

// SetGroup stores a ring buffer in the hash of shards, for CPUs 2*group and 2*group+1.
func (e *RingEmitter) SetGroup(group, fd int) {
	e.t.Helper()
	key, value := uint64(group), uint32(fd)
	if err := e.mapNamed("groups").Update(unsafe.Pointer(&key), unsafe.Pointer(&value)); err != nil {
		e.t.Fatal(err)
	}
}

// Emit outputs on a CPU. It may be called from any goroutine, but for different CPUs only at the same time. That outputs are refused is
// not an error of the test.
func (e *RingEmitter) Emit(cpu int, what RingEmit) {
	e.t.Helper()
	name := "to_" + what.To
	switch {
	case what.Stamped:
		name = "stamped"
	case what.To == "":
		name = "to_shared"
	}
	for left := what.Count; left > 0; left -= MaxCount {
		if err := e.run(name, cpu, min(left, MaxCount), what.Size, what.Flags, what.Every); err != nil {
			e.t.Errorf("running %s on CPU %d: %v", name, cpu, err)
			return
		}
	}
}

// EmitCopy outputs a stamped copy of StampedSize bytes to the shared ring buffer, and returns what that did: nil or an errno.
func (e *RingEmitter) EmitCopy(cpu int) error { return e.run("stamped_copy", cpu, 0, 0, 0, 0) }

// EmitHuge outputs size bytes at once to the shared ring buffer, up to MaxHuge, which CheckHuge knows. It returns what the output did: nil or an
// errno.
func (e *RingEmitter) EmitHuge(cpu, size int) error {
	return e.run("output_huge", cpu, 0, size, 0, 0)
}

func (e *RingEmitter) run(name string, cpu, count, size int, flags uint64, every int) error {
	e.t.Helper()
	args := []byte{}
	for _, arg := range []uint64{uint64(count), uint64(size), flags, uint64(every)} {
		args = binary.NativeEndian.AppendUint64(args, arg)
	}
	opts := libbpfgo.RunOpts{CtxIn: args, CtxSizeIn: uint32(len(args)), Flags: libbpfgo.RunFlagRunOnCPU, CPU: uint32(cpu)}
	if err := e.program(name).Run(&opts); err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return errno(int64(int32(opts.RetVal)))
}

// Discarded is how many records a CPU has reserved and discarded, which are among those attempted.
func (e *RingEmitter) Discarded(cpu int) uint64 {
	e.t.Helper()
	return e.state(cpu).discarded
}

// Interrupt has a timer's interrupt output 8 bytes to the shared ring buffer, on a CPU and as often as each 20 us of its time, until
// the test ends or stop is called, which returns how many outputs were tried so, and how many of them refused.
func (e *RingEmitter) Interrupt(cpu int) (stop func() (attempted, failed uint64)) {
	e.t.Helper()
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER5, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: 20_000}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		e.t.Fatal(err)
	}
	end := sync.OnceFunc(func() { unix.Close(fd) })
	e.t.Cleanup(end)
	for _, op := range []struct{ request, arg int }{{unix.PERF_EVENT_IOC_SET_BPF, e.program("interrupt").FileDescriptor()}, {unix.PERF_EVENT_IOC_ENABLE, 0}} {
		if err := unix.IoctlSetInt(fd, uint(op.request), op.arg); err != nil {
			e.t.Fatal(err)
		}
	}
	return func() (attempted, failed uint64) {
		e.t.Helper()
		end()
		key := uint32(0)
		b, err := e.mapNamed("interrupts").GetValue(unsafe.Pointer(&key))
		if err != nil {
			e.t.Fatal(err)
		}
		b = b[16*cpu:]
		return binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:])
	}
}

// Hold reserves a record in the shared ring buffer and stamps it, on some CPU, and returns when that is done. The record stays busy until
// release is called, which returns when it is committed, or discarded.
func (e *RingEmitter) Hold(discard bool) (release func()) {
	e.t.Helper()
	page := NewSlowPage(e.t)
	args := binary.NativeEndian.AppendUint64(nil, uint64(page.Address()))
	args = binary.NativeEndian.AppendUint64(args, map[bool]uint64{true: 1}[discard])
	done := make(chan error, 1)
	prog := e.program("hold")
	go func() {
		opts := libbpfgo.RunOpts{CtxIn: args, CtxSizeIn: uint32(len(args))}
		err := prog.Run(&opts)
		if err == nil {
			err = errno(int64(int32(opts.RetVal)))
		}
		done <- err
	}()
	if err := page.Wait(); err != nil {
		e.t.Fatal(err)
	}
	return func() {
		e.t.Helper()
		page.Fill()
		if err := <-done; err != nil {
			e.t.Fatalf("running hold: %v", err)
		}
	}
}

// CheckRing decodes a payload that a RingEmitter has output, and compares every byte of it with what was output, and its length. time is that
// in the payload.
func CheckRing(b []byte) (p Payload, time uint64, err error) {
	if len(b) < 32 {
		return p, 0, fmt.Errorf("payload of %d bytes: too short", len(b))
	}
	p, err = check(b, func(size int) int { return size }, 4)
	return p, binary.NativeEndian.Uint64(b[RingTimeAt:]), err
}
