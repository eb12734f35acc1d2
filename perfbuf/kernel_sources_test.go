//go:build linux && cgo

package perfbuf_test

import (
	"os"
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
	openRingBuf := func(fd int) error { _, err := perfbuf.OpenRingBuf(fd, perfbuf.RingBufOptions{}); return err }
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
		{"losses as ring buffer", openRingBuf(rings.LossesFD()), "BPF_MAP_TYPE_ARRAY (2)"},
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
	openRing := func(fd int) *perfbuf.Reader { return openRings(t, fd, perfbuf.RingBufOptions{}) }
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
	perf, shared := open(t, e, perfbuf.Options{}), openRings(t, rings.MapFD(), perfbuf.RingBufOptions{})
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
	require.NoError(t, perfbuf.StreamOf(t, perf).ForEach(never), "nothing is left claimed")
}

// A stream says which source has times of another clock, or none at the offset that was given. It
// goes on without that source.
func TestKernelForeignTimes(t *testing.T) {
	e, rings := kerneltest.Load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	perf := open(t, e, perfbuf.Options{})
	const pattern = 32 // where payloads have no time
	wrong := openRings(t, rings.MapFD(), perfbuf.RingBufOptions{Time: perfbuf.PayloadTime(pattern)})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, perf, wrong)
	require.NoError(t, err)
	rings.Emit(0, kerneltest.RingEmit{Count: 20, Size: 64})
	err = s.Run(t.Context(), func(perfbuf.Event) error { panic("an event") })
	require.ErrorContains(t, err, `map "shared"`)
	require.ErrorContains(t, err, "CLOCK_MONOTONIC")
	require.EqualValues(t, 20, wrong.Stats().Untimed)

	require.NoError(t, s.Remove(wrong))
	e.Emit(0, 5, 40)
	n := 0
	require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
		require.Equal(t, perf, ev.Source())
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
	a, b := open(t, e1, perfbuf.Options{}), open(t, e2, perfbuf.Options{})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, a, b)
	require.NoError(t, err)
	from := make(chan *perfbuf.Reader, 1000)
	ended := background(t, func() {
		require.ErrorIs(t, s.Run(t.Context(), func(ev perfbuf.Event) error { from <- ev.Source(); return nil }), os.ErrClosed)
	})
	for range 20 {
		require.NoError(t, s.Remove(a))
		require.NoError(t, a.Close())
		e2.Emit(0, 1, 40)
		require.Equal(t, b, <-from)
		a = open(t, e1, perfbuf.Options{})
		require.NoError(t, s.Add(a))
		e1.Emit(0, 1, 40)
		require.Equal(t, a, <-from)
	}
	require.NoError(t, s.Close())
	<-ended
}

// Add that cannot wait for one more reader, for want of a descriptor for instance, says so, and
// changes nothing.
func TestKernelAddFaults(t *testing.T) {
	e1, e2 := kerneltest.Load(t), kerneltest.Load(t)
	for call, errno := range map[kerneltest.Call]syscall.Errno{
		kerneltest.CallEpollCreate: syscall.EMFILE, kerneltest.CallDup: syscall.EMFILE, kerneltest.CallEpollCtl: syscall.ENOSPC,
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
					require.Equal(t, a, ev.Source())
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
