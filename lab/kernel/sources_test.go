//go:build linux && cgo

package kernel_test

import (
	"encoding/binary"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A map of another type is refused, and the error names the right reader.
func TestKernelOpenAnotherType(t *testing.T) {
	e, rings := kerneltest.Load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	openPerf := func(fd int) error { _, err := perfbuf.Open(fd, perfbuf.Options{}); return err }
	openRingBuf := func(fd int) error { _, err := perfbuf.OpenRingBuf(fd, perfbuf.Options{}); return err }
	hash := newMap(t, libbpfgo.MapTypeHash, 4, 4, 1).FileDescriptor()
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"a ring buffer as perf event array", openPerf(rings.MapFD()), "perfbuf.OpenRingBuf"},
		{"ring buffers as perf event array", openPerf(rings.ShardsFD()), "perfbuf.OpenRingBuf"},
		{"a hash as perf event array", openPerf(hash), "BPF_MAP_TYPE_HASH (1)"},
		{"a perf event array as ring buffer", openRingBuf(e.MapFD()), "perfbuf.Open"},
		{"a hash as ring buffer", openRingBuf(hash), "BPF_MAP_TYPE_HASH (1)"},
		{"losses as ring buffer", openRingBuf(rings.LanesFD()), "BPF_MAP_TYPE_ARRAY (2)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var refused *perfbuf.MapError
			require.ErrorAs(t, c.err, &refused)
			require.NotZero(t, refused.ID)
			require.ErrorContains(t, c.err, c.want)
		})
	}
}

// A map is read once, even through different descriptors.
func TestKernelMergeAMapTwice(t *testing.T) {
	e, rings := kerneltest.Load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	rings.SetShard(0, rings.MapFD())
	rings.SetGroup(0, rings.MapFD())
	openRing := func(fd int) *perfbuf.Reader { return openRings(t, fd, perfbuf.Options{}) }
	perf, shared, shards, groups := open(t, e, perfbuf.Options{}), openRing(rings.MapFD()), openRing(rings.ShardsFD()), openRing(rings.GroupsFD())
	for name, c := range map[string]struct {
		once, twice *perfbuf.Reader
		want        string
	}{
		"the same reader":                           {perf, perf, `is passed twice`},
		"the same reader of a ring buffer":          {shared, shared, `is passed twice`},
		"two readers of a perf event array":         {perf, open(t, e, perfbuf.Options{}), `map "events"`},
		"two readers of a ring buffer":              {shared, openRing(rings.MapFD()), `map "shared"`},
		"two readers of ring buffers in a map":      {shards, openRing(rings.ShardsFD()), `map "shards"`},
		"a ring buffer and a map that it is in":     {shared, shards, `map "shards"`},
		"a map with a ring buffer and that one":     {shards, shared, `map "shared"`},
		"a ring buffer that is in two maps of maps": {shards, groups, `map "groups"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := perfbuf.Merge(perfbuf.StreamOptions{}, c.once, c.twice)
			require.ErrorContains(t, err, c.want)
			s, err := perfbuf.Merge(perfbuf.StreamOptions{}, c.once)
			require.NoError(t, err, "nothing is left claimed")
			defer s.Close()
			require.ErrorContains(t, s.Add(c.twice), c.want)
		})
	}
}

// While a stream is open its sources are not read otherwise, and readers that are being read are no
// sources.
func TestKernelSourcesThatAreRead(t *testing.T) {
	e, rings := kerneltest.Load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	perf, shared := open(t, e, perfbuf.Options{}), openRings(t, rings.MapFD(), perfbuf.Options{})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, perf, shared)
	require.NoError(t, err)
	never := func(perfbuf.Event) error { panic("an event") }
	for _, r := range []*perfbuf.Reader{perf, shared} {
		_, err = r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
		require.ErrorIs(t, err, perfbuf.ErrBusy)
		_, err = r.Rings()[0].Stream()
		require.ErrorIs(t, err, perfbuf.ErrBusy)
		_, err = perfbuf.Merge(perfbuf.StreamOptions{}, r)
		require.ErrorIs(t, err, perfbuf.ErrBusy)
	}
	require.NoError(t, s.Close())

	rings.Emit(0, kerneltest.RingEmit{Count: 1, Size: 32})
	alone := unordered(t, shared)
	_, err = perfbuf.Merge(perfbuf.StreamOptions{Order: perfbuf.Unordered()}, perf, shared)
	require.ErrorIs(t, err, perfbuf.ErrBusy)
	require.NoError(t, alone.Close())
	require.NoError(t, unordered(t, perf).ForEach(never), "nothing is left claimed")
}

// A stream says which source has times of another clock, or none at the offset that was given. It
// goes on without that source.
func TestKernelForeignTimes(t *testing.T) {
	e, rings := kerneltest.Load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	perf := open(t, e, perfbuf.Options{})
	const pattern = 32 // where payloads have no time
	wrong := openRings(t, rings.MapFD(), perfbuf.Options{Time: perfbuf.PayloadTime(pattern)})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, perf, wrong)
	require.NoError(t, err)
	rings.Emit(0, kerneltest.RingEmit{Count: 20, Size: 64})
	err = s.Run(t.Context(), func(perfbuf.Event) error { panic("an event") })
	require.ErrorContains(t, err, `map "shared"`)
	require.ErrorContains(t, err, "more than a second in the future")
	require.EqualValues(t, 20, wrong.Stats().Untimed)

	require.NoError(t, s.Remove(wrong))
	e.Emit(0, 5, 40)
	n := 0
	require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
		require.Equal(t, "events", ev.Source())
		if n++; n == 5 {
			return perfbuf.ErrStop
		}
		return nil
	}))
	require.NoError(t, s.Close())
}

// A reader that is removed from a stream that runs may be closed at once, and the map read anew.
// The stream goes on.
func TestKernelRemoveThenClose(t *testing.T) {
	e1, e2 := kerneltest.Load(t), kerneltest.Load(t)
	a, b := open(t, e1, perfbuf.Options{Name: "a"}), open(t, e2, perfbuf.Options{Name: "b"})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, a, b)
	require.NoError(t, err)
	from := make(chan string, 1000)
	ended := background(t, func() {
		require.ErrorIs(t, s.Run(t.Context(), func(ev perfbuf.Event) error { from <- ev.Source(); return nil }), os.ErrClosed)
	})
	for range 20 {
		require.NoError(t, s.Remove(a))
		require.NoError(t, a.Close())
		e2.Emit(0, 1, 40)
		require.Equal(t, "b", <-from)
		a = open(t, e1, perfbuf.Options{Name: "a"})
		require.NoError(t, s.Add(a))
		e1.Emit(0, 1, 40)
		require.Equal(t, "a", <-from)
	}
	require.NoError(t, s.Close())
	<-ended
}

// Add that cannot wait for one more reader, for want of a descriptor for instance, says so, and
// changes nothing.
func TestKernelAddFaults(t *testing.T) {
	e1, e2 := kerneltest.Load(t), kerneltest.Load(t)
	for call, errno := range map[kerneltest.Call]syscall.Errno{
		kerneltest.CallEpollCreate: syscall.EMFILE, kerneltest.CallEventfd: syscall.EMFILE, kerneltest.CallEpollCtl: syscall.ENOSPC,
	} {
		t.Run(call.String(), func(t *testing.T) {
			leak.Check(t)
			a, b := open(t, e1, perfbuf.Options{}), open(t, e2, perfbuf.Options{})
			s, err := perfbuf.Merge(perfbuf.StreamOptions{}, a)
			require.NoError(t, err)
			failed := 0
			for k, calls := 1, 1; calls >= k; k++ {
				calls = kerneltest.Fail(t, call, errno, only(k), func() { err = s.Add(b) })
				if err == nil { // nothing depends on the call, or all succeed
					require.NoError(t, s.Remove(b))
					continue
				}
				require.ErrorContains(t, err, "cannot be waited for together")
				failed++
				requireReads(t, e2, b)
				e1.Emit(0, 1, 40)
				require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
					require.Equal(t, "events", ev.Source())
					return perfbuf.ErrStop
				}))
			}
			require.NotZero(t, failed)
			require.NoError(t, s.Close())
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}

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
			s := exact(t, r)
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
