//go:build linux && cgo

package perfchan_test

import (
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
	"github.com/stretchr/testify/require"
)

func onlineCPUs(t *testing.T) []int {
	t.Helper()
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	return cpus
}

// eventually waits until cond holds, without a limit. what names the condition in stack traces.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for !cond() {
		time.Sleep(100 * time.Microsecond)
	}
}

// start opens a PerfBuffer of the map events, which is closed when the test ends, and has it read.
func start(t *testing.T, e *kerneltest.Emitter, events chan []byte, lost chan uint64, pages int) *perfchan.PerfBuffer {
	t.Helper()
	pb, err := perfchan.InitPerfBuf(e.Module(), "events", events, lost, pages)
	require.NoError(t, err)
	t.Cleanup(pb.Close)
	pb.Start()
	return pb
}

// report outputs to a CPU's ring until one output finds room, which reports the losses before it.
// It returns how many it received in between: a reader that waits for a receiver makes no room.
func report(e *kerneltest.Emitter, cpu int, events <-chan []byte) (received uint64) {
	for _, before := e.Counts(cpu); ; {
		select {
		case <-events:
			received++
		default:
		}
		e.Emit(cpu, 1, 24)
		_, failed := e.Counts(cpu)
		if failed == before {
			return received
		}
		before = failed
	}
}
