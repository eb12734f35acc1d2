//go:build linux && cgo

package kerneltest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
)

//go:embed emit.bpf.o
var emitObject []byte

// Bounds of what one Emit may ask for.
const (
	MinSize  = 24
	MaxSize  = 4096
	MaxCount = 512 // of one run; Emit splits larger counts
	MaxHuge  = 1 << 17
)

// Emitter is the loaded program.
type Emitter struct {
	t      testing.TB
	module *libbpfgo.Module
	prog   *libbpfgo.BPFProg
	huge   *libbpfgo.BPFProg
	events *libbpfgo.BPFMap
	states *libbpfgo.BPFMap
}

// state is struct state of emit.bpf.c, one per possible CPU.
type state struct {
	attempted, failed uint64
	err               int64
	discarded         uint64 // of ringbuf.bpf.c's alone
	words             [2 * MaxSize / 8]uint64
}

// pattern is what payloads are pieces of.
func pattern(i int) uint64 { return uint64(i+1) * 0x9E3779B97F4A7C15 }

// Load loads the program and unloads it when the test ends. Without what that
// takes, the test is skipped, or fails: see Require.
func Load(t testing.TB) *Emitter {
	t.Helper()
	Require(t)
	quiet()
	// SkipMemlockBump: raising the limit needs CAP_SYS_RESOURCE, and kernels since 5.11 do not need it raised.
	m, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: emitObject, BPFObjName: "emit", SkipMemlockBump: true})
	if err != nil {
		t.Fatalf("opening emit.bpf.o: %v", err)
	}
	t.Cleanup(m.Close)
	if err := m.BPFLoadObject(); err != nil {
		t.Fatalf("loading emit.bpf.o: %v", err)
	}
	e := &Emitter{t: t, module: m}
	if e.prog, err = m.GetProgram("emit"); err != nil {
		t.Fatal(err)
	}
	if e.huge, err = m.GetProgram("output_huge"); err != nil {
		t.Fatal(err)
	}
	if e.events, err = m.GetMap("events"); err != nil {
		t.Fatal(err)
	}
	if e.states, err = m.GetMap("states"); err != nil {
		t.Fatal(err)
	}
	e.setPattern()
	return e
}

// setPattern fills the maps that outputs are taken from.
func (e *Emitter) setPattern() {
	cpus, err := libbpfgo.NumPossibleCPUs()
	if err != nil {
		e.t.Fatal(err)
	}
	all := make([]state, cpus)
	for c := range all {
		for i := range all[c].words {
			all[c].words[i] = pattern(i)
		}
	}
	key := uint32(0)
	if err := e.states.Update(unsafe.Pointer(&key), unsafe.Pointer(unsafe.SliceData(all))); err != nil {
		e.t.Fatalf("setting the payload pattern: %v", err)
	}
	e.SetHuge(pattern)
}

// SetHuge sets the words that EmitHuge outputs. Load sets those that CheckHuge knows.
func (e *Emitter) SetHuge(word func(i int) uint64) {
	e.t.Helper()
	words := make([]uint64, MaxHuge/8)
	for i := range words {
		words[i] = word(i)
	}
	huge, err := e.module.GetMap("huge")
	if err != nil {
		e.t.Fatal(err)
	}
	key := uint32(0)
	if err := huge.Update(unsafe.Pointer(&key), unsafe.Pointer(unsafe.SliceData(words))); err != nil {
		e.t.Fatalf("setting the bytes of huge outputs: %v", err)
	}
}

// quiet keeps libbpf's messages below warnings to itself.
var quiet = sync.OnceFunc(func() { libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: printWarning}) })

func printWarning(level int, msg string) {
	if level <= libbpfgo.LibbpfWarnLevel {
		fmt.Fprint(os.Stderr, msg)
	}
}

// Module is libbpfgo's; its perf event array is the map "events".
func (e *Emitter) Module() *libbpfgo.Module { return e.module }

// MapFD is the perf event array.
func (e *Emitter) MapFD() int { return e.events.FileDescriptor() }

// ProgFD is the program, which is no map.
func (e *Emitter) ProgFD() int { return e.prog.FileDescriptor() }

// ArrayFD is a map of another type.
func (e *Emitter) ArrayFD() int {
	m, err := e.module.GetMap("array")
	if err != nil {
		e.t.Fatal(err)
	}
	return m.FileDescriptor()
}

// Emit outputs count events of size payload bytes on a CPU. It may be called
// from any goroutine, but for different CPUs only at the same time.
func (e *Emitter) Emit(cpu, count, size int) {
	e.t.Helper()
	if err := e.TryEmit(cpu, count, size); err != nil {
		e.t.Error(err)
	}
}

// TryEmit is Emit that returns what went wrong. That outputs are refused, for a full ring or none, is not an error.
func (e *Emitter) TryEmit(cpu, count, size int) error {
	for count > 0 {
		n := min(count, MaxCount)
		ret, err := run(e.prog, cpu, n, size)
		if err == nil && ret != 0 {
			err = syscall.Errno(-ret)
		}
		if err != nil {
			return fmt.Errorf("running emit on CPU %d: %w", cpu, err)
		}
		count -= n
	}
	return nil
}

// EmitHuge outputs size bytes at once on a CPU, up to MaxHuge, which no Check knows. It returns what the output did, nil or an errno.
func (e *Emitter) EmitHuge(cpu, size int) error {
	e.t.Helper()
	ret, err := run(e.huge, cpu, 0, size)
	if err != nil {
		e.t.Errorf("running output_huge on CPU %d: %v", cpu, err)
	}
	return errno(int64(ret))
}

func run(prog *libbpfgo.BPFProg, cpu, count, size int) (ret int32, err error) {
	args := binary.NativeEndian.AppendUint64(nil, uint64(count))
	args = binary.NativeEndian.AppendUint64(args, uint64(size))
	opts := libbpfgo.RunOpts{CtxIn: args, CtxSizeIn: uint32(len(args)), Flags: libbpfgo.RunFlagRunOnCPU, CPU: uint32(cpu)}
	err = prog.Run(&opts)
	return int32(opts.RetVal), err
}

func errno(ret int64) error {
	if ret < 0 {
		return syscall.Errno(-ret)
	}
	return nil
}

// Counts returns how many outputs a CPU has tried, and how many were refused.
func (e *Emitter) Counts(cpu int) (attempted, failed uint64) {
	e.t.Helper()
	s := e.state(cpu)
	return s.attempted, s.failed
}

// LastError returns what the last output on a CPU did: nil, ENOSPC if the ring was full, ENOENT if there was none.
func (e *Emitter) LastError(cpu int) error {
	e.t.Helper()
	return errno(e.state(cpu).err)
}

func (e *Emitter) state(cpu int) state {
	e.t.Helper()
	key := uint32(0)
	b, err := e.states.GetValue(unsafe.Pointer(&key))
	if err != nil {
		e.t.Fatal(err)
	}
	b = b[cpu*int(unsafe.Sizeof(state{})):]
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	return state{attempted: word(0), failed: word(1), err: int64(word(2)), discarded: word(3)}
}

// Payload is what an emitted event says of itself.
type Payload struct {
	Seq    uint64 // number among those attempted on its CPU
	CPU    int
	Size   int
	Global uint64 // number among those attempted on all CPUs; unique if no two CPUs output at the same time
}

// Check decodes an emitted payload, padding included, and compares every byte of it with what was output.
func Check(b []byte) (Payload, error) {
	if len(b) < MinSize {
		return Payload{}, fmt.Errorf("payload of %d bytes: too short", len(b))
	}
	return check(b, func(size int) int { return (size+4+7)&^7 - 4 }, 3)
}

// check compares the words from one on. length is how many bytes are there for how many that were output.
func check(b []byte, length func(size int) int, from int) (Payload, error) {
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	p := Payload{Seq: word(0), CPU: int(word(1) >> 32), Size: int(uint32(word(1))), Global: word(2)}
	if want := length(p.Size); len(b) != want {
		return p, fmt.Errorf("payload %+v has %d bytes, want %d", p, len(b), want)
	}
	var buf [8]byte
	for i := from; i*8 < p.Size; i++ {
		binary.NativeEndian.PutUint64(buf[:], pattern(int(p.Seq%(MaxSize/8))+i))
		n := min(8, p.Size-i*8)
		if got := b[8*i : 8*i+n]; string(got) != string(buf[:n]) {
			return p, fmt.Errorf("payload %+v: bytes at %d are %x, want %x", p, 8*i, got, buf[:n])
		}
	}
	return p, nil
}

// CheckHuge compares the whole words of a payload with what EmitHuge output.
func CheckHuge(b []byte) error {
	for i := 0; i+8 <= len(b); i += 8 {
		if got := binary.NativeEndian.Uint64(b[i:]); got != pattern(i/8) {
			return fmt.Errorf("huge payload: bytes at %d are %x, want %x", i, got, pattern(i/8))
		}
	}
	return nil
}
