//go:build linux && cgo

package perfdata_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Events of the real kernel, recorded by Run and Drain, come back as they were, in the same order.
func TestRecordTheKernel(t *testing.T) {
	e := kerneltest.Load(t)
	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{RingBytes: 4 << 20})
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	var all []perfbuf.Record
	path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- rec.Run(ctx, s) }()
		for i := range 2000 {
			e.Emit(r.Rings()[i%len(r.Rings())].CPU(), 1+i%5, kerneltest.MinSize+i%200)
		}
		require.NoError(t, s.Flush())
		for rec.Stats().Samples == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, s.Drain(t.Context(), func(ev perfbuf.Event) error {
			all = append(all, ev.Record())
			return rec.Record(ev)
		}))
		require.NoError(t, rec.Flush())
		require.EqualValues(t, 6000, rec.Stats().Samples+rec.Stats().Lost)
	})
	got, err := replayed(t, path, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
	require.Equal(t, io.EOF, err)
	require.Len(t, samples(got), 6000)
	left := samples(all) // by Run
	require.Equal(t, left, append([]perfbuf.Record(nil), samples(got)[6000-len(left):]...))
	for _, rec := range samples(got) {
		_, err := kerneltest.Check(rec.Data)
		require.NoError(t, err)
	}
	require.Contains(t, perf(t, "report", "-D", "-i", path), "PERF_RECORD_FINISHED_ROUND")
}

// perf record records events that BPF programs output: the test puts perf's own perf events into
// the map.
func TestReplayOfPerfRecord(t *testing.T) {
	e := kerneltest.Load(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	cpus, stop := kerneltest.PerfRecord(t, e, path)
	for i := range 1000 {
		e.Emit(cpus[i%len(cpus)], 3, kerneltest.MinSize+i%100)
	}
	stop()
	got, err := replayed(t, path, perfdata.ReplayOptions{Event: "emitted"}, &perfbuf.StreamOptions{})
	require.Equal(t, io.EOF, err)
	// plus the outputs that checked whether perf is ready
	require.GreaterOrEqual(t, len(samples(got)), 3000+len(cpus))
	for _, rec := range samples(got) {
		_, err := kerneltest.Check(rec.Data)
		require.NoError(t, err)
	}
}

// A steady load of some 200,000 events of 64 bytes a second, recorded by perf and by a Recorder, in
// turns: CPU time for each event, and how many are lost.
func BenchmarkAgainstPerf(b *testing.B) {
	load := func(b *testing.B, e *kerneltest.Emitter, cpus []int) (lost uint64) {
		for n := 0; n < b.N; n += 200 {
			e.Emit(cpus[n/200%len(cpus)], 200, 64)
			time.Sleep(time.Millisecond)
		}
		for _, cpu := range cpus {
			_, failed := e.Counts(cpu)
			lost += failed
		}
		return lost
	}
	report := func(b *testing.B, cpu time.Duration, lost uint64) {
		b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/event")
		b.ReportMetric(float64(lost)/float64(b.N), "lost/event")
	}
	b.Run("perf", func(b *testing.B) {
		e := kerneltest.Load(b)
		cpus, stop := kerneltest.PerfRecord(b, e, filepath.Join(b.TempDir(), "perf.data"))
		lost := load(b, e, cpus)
		report(b, stop(), lost)
	})
	b.Run("ringfold", func(b *testing.B) {
		e := kerneltest.Load(b)
		r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{RingBytes: 512 << 10}) // as perf's
		require.NoError(b, err)
		defer r.Close()
		rec, err := perfdata.Create(filepath.Join(b.TempDir(), "perf.data"), perfdata.Options{})
		require.NoError(b, err)
		s := unordered(b, r)
		ctx, cancel := context.WithCancel(b.Context())
		took := make(chan time.Duration)
		go func() {
			runtime.LockOSThread()
			before := threadTime()
			rec.Run(ctx, s)
			rec.Close()
			took <- threadTime() - before
		}()
		lost := load(b, e, r.Options().CPUs)
		cancel()
		report(b, <-took, lost)
	})
}

func threadTime() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_THREAD, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Events of a ring buffer have no CPU: perf prints none, and a replay says the same.
func TestRecordARingBuffer(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	r, err := perfbuf.OpenRingBuf(e.MapFD(), perfbuf.Options{Time: perfbuf.PayloadTime(kerneltest.RingTimeAt)})
	require.NoError(t, err)
	defer r.Close()
	e.Emit(0, kerneltest.RingEmit{Count: 10, Size: 64})
	var recorded []perfbuf.Record
	path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) {
		stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
		require.NoError(t, err)
		require.NoError(t, stream.ForEach(func(ev perfbuf.Event) error {
			recorded = append(recorded, ev.Record())
			return rec.Record(ev)
		}))
	})
	require.Len(t, recorded, 10)
	require.Equal(t, -1, recorded[0].CPU)
	for _, order := range []*perfbuf.StreamOptions{nil, {}} {
		got, err := replayed(t, path, perfdata.ReplayOptions{}, order)
		require.Equal(t, io.EOF, err)
		require.Equal(t, samples(recorded), got)
	}
	got, err := replayed(t, path, perfdata.ReplayOptions{Reader: perfbuf.Options{CPUs: []int{-1}}}, nil)
	require.Equal(t, io.EOF, err)
	require.Len(t, got, 10)
	require.Equal(t, 10, strings.Count(perf(t, "script", "-i", path, "-F", "cpu,time,event", "--ns"), fmt.Sprintf("[%03d]", -1)))
	require.Equal(t, 10, strings.Count(perf(t, "report", "-D", "-i", path), "PERF_RECORD_SAMPLE("))
}
