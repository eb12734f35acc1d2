//go:build linux && cgo

package kerneltest

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/workload"
)

// Sizes and counts of what tests have output: see package workload.
const (
	MinSize  = workload.HeaderSize
	MaxSize  = 4096 // of Emit
	MaxCount = workload.MaxCount
	MaxHuge  = workload.MaxSize
)

// Payload is the content of an emitted event.
type Payload = workload.Payload

// Emitter is the loaded workload, whose errors end the test.
type Emitter struct {
	t  testing.TB
	on workload.Map
	*workload.Programs
}

// Load loads the workload with a perf event array, and more of its programs, and unloads it when
// the test ends. Without what that takes, the test is skipped, or fails: see Require.
func Load(t testing.TB, programs ...string) *Emitter {
	t.Helper()
	return load(t, workload.Config{Programs: programs})
}

// LoadBootTime loads the workload with a perf event array, a BPF ring buffer, and payloads whose
// times are of CLOCK_BOOTTIME.
func LoadBootTime(t testing.TB) *RingEmitter {
	t.Helper()
	return &RingEmitter{load(t, workload.Config{Maps: []workload.Map{workload.Events, workload.Shared}, BootTime: true})}
}

func load(t testing.TB, c workload.Config) *Emitter {
	t.Helper()
	Require(t)
	p, err := workload.Load(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &Emitter{t, workload.Events, p}
}

func (e *Emitter) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// Module is libbpfgo's; its perf event array is the map "events".
func (e *Emitter) Module() *libbpfgo.Module { return e.Programs.Module() }

// MapFD is the map that Emit outputs to: the perf event array, or the shared ring buffer.
func (e *Emitter) MapFD() int { return e.FD(e.on) }

// ProgFD is the program, which is no map.
func (e *Emitter) ProgFD() int { return e.Programs.ProgFD("run") }

// ArrayFD is a map of another type.
func (e *Emitter) ArrayFD() int { return e.Programs.MapFD("array") }

// Emit outputs count events of size payload bytes on a CPU. It may be called from any goroutine,
// but for different CPUs only at the same time.
func (e *Emitter) Emit(cpu, count, size int) {
	e.t.Helper()
	if err := e.TryEmit(cpu, count, size); err != nil {
		e.t.Error(err)
	}
}

// EmitOn is Emit on each of these CPUs, one after the other.
func (e *Emitter) EmitOn(cpus []int, count, size int) {
	e.t.Helper()
	for _, cpu := range cpus {
		e.Emit(cpu, count, size)
	}
}

// TryEmit is Emit, but returns the error. A refused output, for a full ring or none, is not an
// error.
func (e *Emitter) TryEmit(cpu, count, size int) error {
	return e.Output(cpu, workload.Output{Count: count, Size: size, To: e.on})
}

// EmitHuge outputs size bytes at once on a CPU, up to MaxHuge; CheckHuge checks them. It returns
// the output's result, nil or an errno.
func (e *Emitter) EmitHuge(cpu, size int) error { return e.Bare(cpu, size, e.on) }

// SetHuge sets the words that EmitHuge outputs. Load sets those that CheckHuge knows.
func (e *Emitter) SetHuge(word func(i int) uint64) {
	e.t.Helper()
	e.must(e.SetPattern(word))
}

// Counts returns how many outputs a CPU has tried, and how many were refused.
func (e *Emitter) Counts(cpu int) (attempted, failed uint64) {
	e.t.Helper()
	c := e.counts(cpu).Sum()
	return c.Attempted, c.Refused()
}

// LastError returns the result of the last output on a CPU that interrupted no other: nil, ENOSPC
// if the ring was full, ENOENT if there was none.
func (e *Emitter) LastError(cpu int) error {
	e.t.Helper()
	if ret := e.counts(cpu).Levels[0].Error; ret < 0 {
		return syscall.Errno(-ret)
	}
	return nil
}

func (e *Emitter) counts(cpu int) *workload.CPUCounts {
	e.t.Helper()
	all, err := e.Programs.Counts()
	e.must(err)
	return &all[cpu]
}

// Written is one more than the number of the latest output of Emit on a CPU that went into a ring.
func (e *Emitter) Written(cpu int) uint64 {
	e.t.Helper()
	return e.counts(cpu).Levels[0].Last
}

// Tick outputs from a timer interrupt on a CPU, once per 20 us of its time, until the test ends or
// stop is called. It needs the program "on_tick".
func (e *Emitter) Tick(cpu int) (stop func()) {
	e.t.Helper()
	e.must(e.Aim(e.on, false))
	stop, err := e.Programs.Tick([]int{cpu}, 20*time.Microsecond)
	e.must(err)
	e.t.Cleanup(stop)
	return stop
}

// Ticks is how many outputs Tick has tried on a CPU.
func (e *Emitter) Ticks(cpu int) uint64 {
	e.t.Helper()
	return e.counts(cpu).Sum().Sources[workload.Tick]
}

// Check decodes an emitted payload, padding included, and compares every byte with the output.
func Check(b []byte) (Payload, error) {
	return checkLength(b, workload.Padded)
}

// CheckRing is Check of a payload in a ring buffer, which has no padding.
func CheckRing(b []byte) (Payload, error) {
	return checkLength(b, func(size int) int { return size })
}

func checkLength(b []byte, length func(int) int) (Payload, error) {
	p, err := workload.Check(b)
	if want := length(p.Size); err == nil && len(b) != want {
		err = fmt.Errorf("payload %+v has %d bytes, want %d", p, len(b), want)
	}
	return p, err
}

// CheckHuge compares the whole words of a payload with EmitHuge's output.
func CheckHuge(b []byte) error { return workload.CheckBare(b) }
