//go:build linux && cgo

package kerneltest

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/workload"
)

// Where payloads have their time, 8 bytes, and their CPU, 4 bytes.
const (
	RingTimeAt = workload.TimeOffset
	RingCPUAt  = workload.CPUOffset
)

// Flags of bpf_ringbuf_output.
const (
	NoWakeup    = workload.NoWakeup
	ForceWakeup = workload.ForceWakeup
)

// StampedSize is the size of the payloads of RingEmit.Stamped and Hold.
const StampedSize = workload.StampedSize

// RingEmitter is the loaded workload with BPF ring buffers: a shared one, and shards in an array
// and in a hash of maps, empty at first.
type RingEmitter struct{ *Emitter }

// RingOptions say how to load a RingEmitter.
type RingOptions struct {
	Bytes  int // of the shared ring buffer; 0: 64 KiB
	Shards int // entries of the array of shards, and of the hash of groups; 0: 8
	// Hold loads the program that holds a record. The test is skipped if the machine cannot run it.
	Hold bool
	// Interrupt loads the program of Tick.
	Interrupt bool
	// Overwrite makes programs overwrite the oldest records. The test is skipped on older kernels.
	Overwrite bool
	Events    bool // a perf event array, too
}

// RingEmit says how many records to output, and where.
type RingEmit struct {
	Count, Size int
	Flags       uint64 // of bpf_ringbuf_output
	To          string // "shared" or "", "shard" (by CPU, array), "group" (by CPU/2, hash, 8-byte keys)
	Stamped     bool   // reserve StampedSize bytes in the shared one and stamp them, instead
	Every       int    // of these, discard those whose number is a multiple of it; 0: none
}

// LoadRings loads the workload and unloads it when the test ends. See Load.
func LoadRings(t testing.TB, opts RingOptions) *RingEmitter {
	t.Helper()
	programs := []string{"stamped", "stamped_copy"}
	if opts.Hold {
		Require(t)
		RequireLinux(t, 5, 15, "programs of type syscall that use ring buffers")
		programs = append(programs, "hold")
	}
	if opts.Interrupt {
		programs = append(programs, "on_tick")
	}
	if opts.Overwrite {
		RequireLinux(t, 6, 19, "BPF_F_RB_OVERWRITE")
	}
	maps := []workload.Map{workload.Shared, workload.Shards, workload.Groups}
	if opts.Events {
		maps = append(maps, workload.Events)
	}
	e := load(t, workload.Config{Maps: maps, Programs: programs, Bytes: opts.Bytes, Shards: opts.Shards, Overwrite: opts.Overwrite})
	e.on = workload.Shared
	return &RingEmitter{e}
}

// ShardsFD is the array of shards.
func (e *RingEmitter) ShardsFD() int { return e.FD(workload.Shards) }

// GroupsFD is the hash of shards.
func (e *RingEmitter) GroupsFD() int { return e.FD(workload.Groups) }

// LanesFD is the map in which perfbuf_ringbuf.h counts the shared ring buffer's losses.
func (e *RingEmitter) LanesFD() int { return e.Programs.LanesFD(workload.Shared) }

// ShardLanesFD is that of shards and groups.
func (e *RingEmitter) ShardLanesFD() int { return e.Programs.LanesFD(workload.Shards) }

// NewRingBuf creates a ring buffer, which is closed when the test ends.
func NewRingBuf(t testing.TB, bytes int) (fd int) { return newRingBuf(t, bytes, false) }

// NewOverwritten creates a ring buffer of RingOptions.Overwrite, which is closed when the test
// ends.
func NewOverwritten(t testing.TB, bytes int) (fd int) { return newRingBuf(t, bytes, true) }

func newRingBuf(t testing.TB, bytes int, overwrite bool) (fd int) {
	t.Helper()
	fd, err := workload.NewRingBuf(bytes, overwrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	return fd
}

// SetShard stores a ring buffer in the array of shards, for a CPU.
func (e *RingEmitter) SetShard(cpu, fd int) {
	e.t.Helper()
	e.must(e.Programs.SetShard(workload.Shards, cpu, fd))
}

// SetGroup stores a ring buffer in the hash of shards, for CPUs 2*group and 2*group+1.
func (e *RingEmitter) SetGroup(group, fd int) {
	e.t.Helper()
	e.must(e.Programs.SetShard(workload.Groups, group, fd))
}

// Emit outputs on a CPU. It may be called from any goroutine, but concurrently only for different
// CPUs. A refused output is not an error of the test.
func (e *RingEmitter) Emit(cpu int, what RingEmit) {
	e.t.Helper()
	output := e.Output
	if what.Stamped {
		output = e.Programs.Stamped
	}
	to := map[string]workload.Map{"": workload.Shared, "shared": workload.Shared, "shard": workload.Shards, "group": workload.Groups}[what.To]
	if err := output(cpu, workload.Output{Count: what.Count, Size: what.Size, To: to, Flags: what.Flags, Every: what.Every}); err != nil {
		e.t.Error(err)
	}
}

// EmitCopy outputs a stamped copy of StampedSize bytes to the shared ring buffer, and returns the
// result: nil or an errno.
func (e *RingEmitter) EmitCopy(cpu int) error { return e.StampedCopy(cpu) }

// Discarded is how many records a CPU has reserved and discarded, which are among those attempted.
func (e *RingEmitter) Discarded(cpu int) uint64 {
	e.t.Helper()
	return e.counts(cpu).Sum().Discarded
}

// Hold reserves a record in the shared ring buffer and stamps it, on some CPU, and returns when
// that is done. The record stays busy until release is called, which returns when it is committed,
// or discarded.
func (e *RingEmitter) Hold(discard bool) (release func()) {
	e.t.Helper()
	page := NewSlowPage(e.t)
	args := binary.NativeEndian.AppendUint64(nil, uint64(page.Address()))
	args = binary.NativeEndian.AppendUint64(args, map[bool]uint64{true: 1}[discard])
	prog, err := e.Module().GetProgram("hold")
	e.must(err)
	done := make(chan error, 1)
	go func() {
		ret, err := bpf.ProgTestRun(prog.FileDescriptor(), nil, args, -1)
		if err == nil {
			err = errno(int64(int32(ret)))
		}
		done <- err
	}()
	e.must(page.Wait())
	return func() {
		e.t.Helper()
		page.Fill()
		if err := <-done; err != nil {
			e.t.Fatalf("running hold: %v", err)
		}
	}
}
