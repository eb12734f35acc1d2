//go:build linux && cgo

package perfdata_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// Losses of a ring buffer, counted by its programs, keep their place and kind in a replay.
func TestKernelCountedLosses(t *testing.T) {
	for rings, cpus := range map[int]perfbuf.CPUSource{1: {}, 2: perfbuf.PayloadCPU(kerneltest.RingCPUAt)} {
		e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
		r, err := perfbuf.OpenRingBuf(e.MapFD(), perfbuf.Options{Time: perfbuf.PayloadTime(kerneltest.RingTimeAt), CPU: cpus, LanesFD: e.LanesFD()})
		require.NoError(t, err)
		s, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		var want []perfbuf.Record
		path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) {
			each := func(ev perfbuf.Event) error {
				one := ev.Record()
				one.Source = ""
				want = append(want, one)
				return rec.Record(ev)
			}
			for _, count := range []int{3, 512, 1, 600} { // the last loss is the last event
				e.Emit(1, kerneltest.RingEmit{Count: 2, Size: 4000})
				e.Emit(0, kerneltest.RingEmit{Count: count, Size: 4000})
				require.NoError(t, s.Drain(t.Context(), each))
			}
		})
		require.NoError(t, r.Close())
		<-r.Done()
		lost, at := r.Stats().Total().Lost, 0
		require.NotZero(t, lost)
		require.Equal(t, perfbuf.KindLost, want[len(want)-1].Kind)
		for _, one := range want {
			if one.Kind == perfbuf.KindLost {
				require.NotZero(t, one.LostAfter)
				at++
			}
		}
		require.Equal(t, 2, at)

		copied := filepath.Join(t.TempDir(), "copied.data")
		rec, err := perfdata.Create(copied, perfdata.Options{})
		require.NoError(t, err)
		again, err := perfdata.Open(path, perfdata.ReplayOptions{})
		require.NoError(t, err)
		defer again.Close()
		require.Equal(t, io.EOF, rec.Run(t.Context(), unordered(t, again)))
		require.NoError(t, rec.Close())
		require.Equal(t, lost, again.Stats().Total().Lost)
		require.Len(t, again.Stats().Rings, rings)
		for _, file := range []string{path, copied} {
			got, err := replayed(t, file, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
			require.Equal(t, io.EOF, err)
			require.Equal(t, want, got)
			later, err := replayed(t, file, perfdata.ReplayOptions{WallClock: true}, &perfbuf.StreamOptions{})
			require.Equal(t, io.EOF, err)
			last, shift := len(want)-1, later[0].Time-want[0].Time
			require.Equal(t, want[last].LostAfter+shift, later[last].LostAfter)
		}
		require.Contains(t, perf(t, "script", "--show-lost-events", "-i", path), "PERF_RECORD_LOST lost ")
	}
}

// What programs have shed keeps its lane, CPU and place in a replay, and is no loss there.
func TestKernelShed(t *testing.T) {
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	r, err := perfbuf.Open(c.MapFD(), perfbuf.Options{RingBytes: 4096, LanesFD: c.LanesFD(), Lanes: []int{25, 50}})
	require.NoError(t, err)
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	var want []perfbuf.Record
	path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) {
		for range 2 {
			for lane := range 2 {
				for range 50 {
					c.OutputIn(lane, 0, 40)
				}
			}
			require.NoError(t, s.Drain(t.Context(), func(ev perfbuf.Event) error {
				one := ev.Record()
				one.Source = ""
				want = append(want, one)
				return rec.Record(ev)
			}))
		}
		require.Equal(t, rec.Stats().Shed, r.Stats().Total().Shed)
	})
	require.NoError(t, r.Close())
	<-r.Done()
	shed := map[int]uint64{}
	for _, one := range want {
		if one.Kind == perfbuf.KindShed {
			shed[one.Lane] += one.Lost
		}
	}
	require.Equal(t, map[int]uint64{0: 2 * (50 - 16), 1: 2 * (50 - 16)}, shed)

	again, err := perfdata.Open(path, perfdata.ReplayOptions{})
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, io.EOF, unordered(t, again).Run(t.Context(), func(perfbuf.Event) error { return nil }))
	require.Equal(t, r.Stats().Total().Shed, again.Stats().Total().Shed)
	require.Zero(t, again.Stats().Total().Lost)
	got, err := replayed(t, path, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
	require.Equal(t, io.EOF, err)
	require.Equal(t, want, got)
}
