//go:build linux && cgo

package perfbuf_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// Of rings that perf_buffer__new sets up, the map holds events of ours.

func openDefault(t *testing.T, e *kerneltest.Emitter, opts perfbuf.Options) *perfbuf.Reader {
	t.Helper()
	r, err := perfbuf.OpenDefault(e.MapFD(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// Counts are final after Close, with reported and unreported losses, and with new perf events of
// the rings.
func TestKernelDefaultConserves(t *testing.T) {
	kerneltest.RequireLinux(t, 6, 0, "PERF_FORMAT_LOST")
	e := kerneltest.Load(t)
	r := openDefault(t, e, perfbuf.Options{RingBytes: 4096})
	for round := range 4 {
		for i, ring := range r.Rings() {
			e.Emit(ring.CPU(), 300, 40)
			if round > 0 {
				require.NoError(t, r.Reopen(i))
			}
		}
		if round < 3 {
			require.NoError(t, perfbuf.StreamOf(t, r).ForEach(nothing))
		}
	}
	shut(t, r)
	for _, s := range r.Stats().Rings {
		attempted, failed := e.Counts(s.CPU)
		require.EqualValues(t, 1200, attempted)
		require.Positive(t, s.Dropped)
		require.Equal(t, failed, s.Lost)
		require.Equal(t, attempted, s.Samples+s.Dropped+s.Lost)
	}
}

// The doorbell works as with rings that are opened with our options: rare events wake, few others
// do, and both events count losses.
func TestKernelDefaultDoorbell(t *testing.T) {
	e := kerneltest.Load(t)
	r := openDefault(t, e, perfbuf.Options{})
	requireDoorbell(t, e, r, perfbuf.StreamOf(t, r))
	e = kerneltest.Load(t)
	requireDoorbellConserves(t, e, openDefault(t, e, perfbuf.Options{RingBytes: 4096}), 48)
}

// Without descriptors for the doorbell there is none for all that, as with Open.
func TestKernelDefaultWithoutDoorbell(t *testing.T) {
	leak.Check(t)
	e := kerneltest.Load(t)
	n := len(onlineCPUs(t))
	opens := func(fail func(int) bool) (r *perfbuf.Reader, calls int) {
		var err error
		calls = kerneltest.Fail(t, kerneltest.CallPerfEventOpen, syscall.EMFILE, fail, func() {
			r, err = perfbuf.OpenDefault(e.MapFD(), perfbuf.Options{RingBytes: 4096, Wakeup: perfbuf.Wakeup{PollInterval: time.Millisecond}})
		})
		require.NoError(t, err)
		return r, calls
	}
	// The last are the doorbells; kernels without PERF_FORMAT_LOST refuse an event, and all begins
	// anew
	r, all := opens(only(0))
	require.NoError(t, r.Close())
	for k := range n {
		r, calls := opens(only(all - n + k + 1))
		require.Equal(t, all-n+k+1, calls)
		require.ErrorIs(t, r.Stats().Doorbell.Err, syscall.EMFILE)
		require.Equal(t, perfbuf.Wakeup{Bytes: 1024, PollInterval: 10 * time.Millisecond}, r.Options().Wakeup)
		requireReads(t, e, r)
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 5, kerneltest.MaxSize) // does not fit
		}
		shut(t, r)
		if kernelCounts(t) {
			require.EqualValues(t, 5*n, r.Stats().Total().Lost)
		}
	}
}

// A CPU that comes is no reason to open the events of all others anew.
func TestKernelDefaultAlive(t *testing.T) {
	r := openDefault(t, kerneltest.Load(t), perfbuf.Options{})
	require.NoError(t, r.Replug())
	require.Zero(t, r.Stats().Hotplug.Reopened)
}

// Before Linux 6.0 the kernel refuses events that count losses, and does with others.
func TestKernelDefaultWithoutLost(t *testing.T) {
	leak.Check(t)
	e := kerneltest.Load(t)
	var r *perfbuf.Reader
	var err error
	kerneltest.Fail(t, kerneltest.CallPerfEventOpen, syscall.EINVAL, only(len(onlineCPUs(t))+1), func() {
		r, err = perfbuf.OpenDefault(e.MapFD(), perfbuf.Options{RingBytes: 4096})
	})
	require.NoError(t, err)
	for _, ring := range r.Rings() {
		e.Emit(ring.CPU(), 300, 40)
	}
	shut(t, r)
	for _, s := range r.Stats().Rings {
		attempted, failed := e.Counts(s.CPU)
		require.Equal(t, attempted-failed, s.Dropped)
		require.Zero(t, s.Lost, "no record reports them")
	}
}

// Whichever event of ours cannot be opened, nothing is left behind.
func TestKernelDefaultFaults(t *testing.T) {
	leak.Check(t)
	e := kerneltest.Load(t)
	n := len(onlineCPUs(t))
	for k := range n {
		for call, number := range map[kerneltest.Call]int{kerneltest.CallPerfEventOpen: n + k + 1, callSetOutput: k + 1} {
			calls := kerneltest.Fail(t, call, syscall.EMFILE, only(number), func() {
				r, err := perfbuf.OpenDefault(e.MapFD(), perfbuf.Options{})
				if r != nil {
					r.Close()
				}
				require.ErrorIs(t, err, syscall.EMFILE)
				require.ErrorContains(t, err, "perfbuf.Open: ")
			})
			require.Equal(t, number, calls)
		}
	}
	requireReads(t, e, openDefault(t, e, perfbuf.Options{}))
}
