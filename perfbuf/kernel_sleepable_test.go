//go:build linux && cgo

package perfbuf_test

import (
	"encoding/binary"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// refusal is how the verifier begins to say which maps sleepable programs may use
// (check_map_prog_compatibility, kernel/bpf/verifier.c). The rest differs between kernels.
const refusal = "Sleepable programs can only use"

// sleepableKinds calls f for each kind of program that may sleep on this kernel. plain reports
// whether there are such programs that do not sleep.
func sleepableKinds(t *testing.T, f func(t *testing.T, kind string, plain bool)) {
	kerneltest.Require(t)
	kinds := 0
	for _, kind := range []string{"lsm", "fentry", "uprobe", "iter", "syscall"} {
		t.Run(kind, func(t *testing.T) {
			if _, err := kerneltest.LoadPrograms(t, kind+"_sleepable_nothing"); err != nil {
				t.Skipf("not on this kernel: %v", err)
			}
			kinds++
			f(t, kind, kind != "syscall")
		})
	}
	require.NotZero(t, kinds, "5.10 and newer have sleepable programs")
}

// A sleepable program, which a grace period does not wait for, cannot use a perf event array: exact
// order by the programs' own times, and the end of a stream, rest on that. The same program that
// does not sleep can.
func TestKernelSleepable(t *testing.T) {
	sleepableKinds(t, func(t *testing.T, kind string, plain bool) {
		_, err := kerneltest.LoadPrograms(t, kind+"_sleepable_outputs")
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, refusal)
		if plain {
			_, err = kerneltest.LoadPrograms(t, kind+"_outputs")
			require.NoError(t, err)
		}
	})
}

// Nor can it call a program that uses one. Old kernels keep all arrays of programs from it; newer
// ones, programs that do not sleep from an array that it uses, and it from an array that those use
// (__bpf_prog_map_compatible, kernel/bpf/core.c).
func TestKernelSleepableTailCall(t *testing.T) {
	sleepableKinds(t, func(t *testing.T, kind string, plain bool) {
		caller, err := kerneltest.LoadPrograms(t, kind+"_sleepable_calls", kind+"_sleepable_nothing")
		if err != nil {
			require.ErrorIs(t, err, syscall.EINVAL)
			require.ErrorContains(t, err, refusal)
		} else {
			t.Log("sleepable programs call others here")
			require.NoError(t, caller.SetCalled(caller.FD(kind+"_sleepable_nothing")))
		}
		if !plain {
			return
		}
		other, err := kerneltest.LoadPrograms(t, kind+"_calls", kind+"_outputs")
		require.NoError(t, err)
		require.NoError(t, other.SetCalled(other.FD(kind+"_outputs")))
		if caller != nil {
			require.ErrorIs(t, caller.SetCalled(other.FD(kind+"_outputs")), syscall.EINVAL)
		}
		// With one array
		_, err = kerneltest.LoadPrograms(t, kind+"_calls", kind+"_sleepable_calls")
		require.ErrorIs(t, err, syscall.EINVAL)
	})
}

// A sleepable program may find a perf event array in a map of maps, and output to that: the
// verifier does not look there. It may sleep between taking a time of its own and the output, and
// no grace period waits for it. So its own time comes too late, and the event is marked. The
// kernel's time does not: perf_event_output (kernel/events/core.c) takes it and publishes the event
// within one RCU read section, for every kind of program.
func TestKernelSleepableFindsArray(t *testing.T) {
	kerneltest.RequireLinux(t, 5, 14, "programs of type syscall")
	for name, source := range map[string]perfbuf.TimeSource{"kernel time": {}, "payload time": perfbuf.PayloadTime(0)} {
		t.Run(name, func(t *testing.T) {
			programs, err := kerneltest.LoadPrograms(t, "slow", "prompt")
			if err != nil && strings.Contains(err.Error(), refusal) {
				t.Skipf("this kernel's verifier does look there: %v", err)
			}
			require.NoError(t, err)
			programs.ShowArray()
			r, err := perfbuf.Open(programs.MapFD(), perfbuf.Options{Time: source})
			require.NoError(t, err)
			defer r.Close()
			s, err := r.Stream(perfbuf.StreamOptions{})
			require.NoError(t, err)
			next := func() (rec perfbuf.Record) {
				require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
					rec = ev.Record()
					return perfbuf.ErrStop
				}))
				return rec
			}

			page := kerneltest.NewSlowPage(t)
			asleep, ended := make(chan error, 1), make(chan error, 1)
			go func() { asleep <- page.Wait() }()
			go func() { ended <- programs.Run("slow", uint64(page.Address())) }()
			select {
			case err := <-asleep:
				require.NoError(t, err)
			case err := <-ended:
				page.Fill()
				require.FailNow(t, "it did not sleep", "%v", err)
			}
			require.NoError(t, programs.Run("prompt", 0))
			first := next() // although the other program, which began before, still runs
			page.Fill()
			require.NoError(t, <-ended)
			second := next()

			began := binary.NativeEndian.Uint64(second.Data)
			require.Less(t, began, binary.NativeEndian.Uint64(first.Data))
			if name == "payload time" {
				require.Equal(t, began, second.Time)
				require.True(t, second.Late)
			} else {
				require.Greater(t, second.Time, first.Time)
				require.False(t, second.Late)
			}
		})
	}
}
