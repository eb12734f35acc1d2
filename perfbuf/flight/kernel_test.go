//go:build linux && cgo

package flight_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// A ring that has never been full has every event since recording began. A full ring has its newest
// events without a gap, and reports the time since which it is complete.
func TestKernelSnapshot(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	before := perfbuf.Now()
	r := open(t, e, flight.Options{MaxBytes: len(cpus) * 64 << 10})
	opened := perfbuf.Now()
	require.Empty(t, check(t, snapshot(t, r)))
	e.EmitOn(cpus, 100, 40)
	s := snapshot(t, r)
	require.Equal(t, 100*len(cpus), s.Len())
	require.Greater(t, s.CompleteSince(), before)
	require.LessOrEqual(t, s.CompleteSince(), opened)
	for cpu, got := range check(t, s) {
		require.Equalf(t, span{0, 100}, got, "CPU %d", cpu)
	}
	again := snapshot(t, r) // nothing is consumed
	require.Equal(t, s.Len(), again.Len())

	e.Emit(cpus[0], 5000, 40) // of 64 bytes each: 1024 in a ring
	s = snapshot(t, r)
	got := check(t, s)
	require.Equal(t, uint64(5100), got[cpus[0]].next)
	require.LessOrEqual(t, uint64(5100-1024), got[cpus[0]].first)
	require.GreaterOrEqual(t, uint64(5100-1024+8), got[cpus[0]].first)
	for _, ring := range s.Rings() {
		require.NoError(t, ring.Err)
		if ring.CPU == cpus[0] {
			require.Equal(t, s.CompleteSince(), ring.Since)
		} else {
			require.Less(t, ring.Since, s.CompleteSince())
		}
	}
	again.Release()
	again.Release()
	for range again.Events() {
		t.Fatal("an event of a snapshot that was released")
	}
	require.Equal(t, s.Len(), snapshot(t, r).Len())
	stats := r.Stats()
	require.Equal(t, uint64(5100+100*(len(cpus)-1))*64, stats.Written)
	require.Equal(t, uint64(5), stats.Snapshots)
	require.Zero(t, stats.Refused)
}

// A snapshot has the same events after WriteTo and replay.
func TestKernelWriteTo(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	r := open(t, e, flight.Options{MaxBytes: len(cpus) * 64 << 10})
	for range 100 {
		for i, cpu := range cpus {
			e.Emit(cpu, 20*(1+i%2), 40+i) // more than fits
		}
	}
	s := snapshot(t, r)
	path := filepath.Join(t.TempDir(), "snapshot.perf.data")
	file, err := os.Create(path)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	n, err := s.WriteTo(file)
	require.NoError(t, err)
	st, err := file.Stat()
	require.NoError(t, err)
	require.Equal(t, st.Size(), n)
	since, until, err := perfdata.Times(path)
	require.NoError(t, err)
	require.Equal(t, []uint64{s.CompleteSince(), s.Until()}, []uint64{since, until})

	reader, err := perfdata.Open(path, perfdata.ReplayOptions{})
	require.NoError(t, err)
	defer reader.Close()
	stream, err := reader.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	next, stop := iter.Pull(s.Records())
	defer stop()
	events := 0
	require.ErrorIs(t, stream.Run(t.Context(), func(ev perfbuf.Event) error {
		want, ok := next()
		require.True(t, ok)
		got := ev.Record()
		got.Source = want.Source // the replay's reader
		require.Equal(t, want, got)
		events++
		return nil
	}), io.EOF)
	require.NotZero(t, events)
	require.Equal(t, s.Len(), events)

	pr, pw := io.Pipe()
	require.NoError(t, pr.Close())
	_, err = s.WriteTo(pw)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	s.Release()
	n, err = s.WriteTo(file)
	require.Zero(t, n)
	require.ErrorIs(t, err, os.ErrClosed)
}

// With rings of one page and more, and events of equal and mixed sizes, the newest events remain,
// whole.
func TestKernelSizes(t *testing.T) {
	e := kerneltest.Load(t)
	cpu := kerneltest.OnlineCPUs(t)[0]
	for _, bytes := range []int{os.Getpagesize(), 4 * os.Getpagesize(), 1 << 20} {
		r := open(t, e, flight.Options{MaxBytes: bytes, CPUs: []int{cpu}})
		// The oldest six events serve only to find the start of the complete interval.
		for size := kerneltest.MinSize; size <= min(600, bytes/10); size += 13 {
			e.Emit(cpu, 1+size%29, size)
			attempted, _ := e.Counts(cpu)
			s := snapshot(t, r)
			got := check(t, s)[cpu]
			require.Equalf(t, attempted, got.next, "%d bytes, size %d", bytes, size)
			s.Release()
		}
		require.NoError(t, r.Close())
	}
}

// Under full load on all CPUs, each snapshot has events of each CPU without a gap, up to the call.
// No output is refused.
func TestKernelSnapshotUnderLoad(t *testing.T) {
	for name, size := range map[string]func(n int) int{
		"small": func(int) int { return 24 }, "all": func(n int) int { return 24 + n*37%2000 },
	} {
		for _, bytes := range []int{64 << 10, 2 << 20} {
			t.Run(fmt.Sprint(name, bytes), func(t *testing.T) {
				e := kerneltest.Load(t)
				cpus := kerneltest.OnlineCPUs(t)
				r := open(t, e, flight.Options{MaxBytes: len(cpus) * bytes})
				l := start(t, e, size)
				whole, events, n := 0, 0, 200
				if bytes > 1<<20 {
					n = 50 // checking their events takes long
				}
				for i := 0; i < n || bytes == 2<<20 && whole == 0; i++ { // copies may be slow
					done := map[int]uint64{}
					for _, cpu := range cpus {
						done[cpu] = l.done[cpu].Load()
					}
					s := snapshot(t, r)
					got := check(t, s)
					events += s.Len()
					if s.CompleteSince() <= s.Until() {
						whole++
						for _, cpu := range cpus {
							if span, ok := got[cpu]; ok {
								require.GreaterOrEqualf(t, span.next, done[cpu], "CPU %d", cpu)
							}
						}
					}
					s.Release()
				}
				l.stop()
				for _, cpu := range cpus {
					_, failed := e.Counts(cpu)
					require.Zero(t, failed)
				}
				t.Logf("%d of %d snapshots are complete up to the call, of %d events on average; the last took %v", whole, n, events/n, r.Stats().LastTook)
			})
		}
	}
}

// While rings are paused, outputs are refused. The next accepted output reports how many.
func TestKernelPause(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	r := open(t, e, flight.Options{MaxBytes: len(cpus) * 256 << 10, Pause: true})
	l := start(t, e, func(int) int { return 24 })
	for range 50 {
		s := snapshot(t, r)
		check(t, s)
		s.Release()
	}
	l.stop()
	e.Emit(cpus[0], 1, 24)
	require.NoError(t, e.LastError(cpus[0]))
	refused := uint64(0)
	for _, cpu := range cpus {
		_, failed := e.Counts(cpu)
		refused += failed
	}
	t.Logf("refused %d in 50 snapshots", refused)
	if kerneltest.AtLeast(t, 6, 0) {
		require.Equal(t, refused, r.Stats().Refused)
		require.NoError(t, r.Close())
		require.Equal(t, refused, r.Stats().Refused)
	}
}

// MinAge drops older events. Partial keeps events older than CompleteSince.
func TestKernelMinAgeAndPartial(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	r := open(t, e, flight.Options{MaxBytes: len(cpus) * os.Getpagesize(), Partial: true})
	e.EmitOn(cpus, 10, 40)
	e.Emit(cpus[0], 1000, 40)
	s := snapshot(t, r)
	if len(cpus) > 1 {
		require.Equal(t, os.Getpagesize()/64+10*(len(cpus)-1), s.Len())
		first := uint64(0)
		for ev := range s.Events() {
			first = ev.Time()
			break
		}
		require.Less(t, first, s.CompleteSince())
	}
	require.NoError(t, r.Close())

	r = open(t, e, flight.Options{MinAge: time.Hour})
	e.Emit(cpus[0], 10, 40)
	s = snapshot(t, r)
	require.Equal(t, 10, s.Len())
	require.Less(t, s.Age(), time.Hour)
	require.Equal(t, uint64(1), r.Stats().Short)
	require.NoError(t, r.Close())

	r = open(t, e, flight.Options{MinAge: time.Microsecond})
	e.Emit(cpus[0], 10, 40)
	for end := perfbuf.Now() + 1000; perfbuf.Now() <= end; {
	}
	s = snapshot(t, r)
	require.Zero(t, s.Len())
	require.Equal(t, time.Microsecond, s.Age())
	require.Zero(t, r.Stats().Short)
}

// Payload words order the events if they are plausible times. Words later than the kernel's time
// are not.
func TestKernelPayloadTime(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	r := open(t, e, flight.Options{Time: perfbuf.PayloadTime(kerneltest.RingTimeAt), Partial: true})
	for n := range 20 {
		e.Emit(cpus[n%len(cpus)], 1, 24+n%3)
	}
	s := snapshot(t, r)
	n := 0
	for ev := range s.Events() {
		p, err := kerneltest.Check(ev.Bytes())
		require.NoError(t, err)
		require.Equal(t, p.Time, ev.Time())
		require.Equal(t, cpus[n%len(cpus)], p.CPU)
		require.EqualValues(t, n/len(cpus), p.Seq)
		n++
	}
	require.Equal(t, 20, n)
	require.NoError(t, r.Close())

	for _, offset := range []int{24, 4000} { // the checksum, or a payload that is too short
		r = open(t, e, flight.Options{Time: perfbuf.PayloadTime(offset)})
		began := perfbuf.Now()
		e.Emit(cpus[0], 20, 40)
		n := 0
		for ev := range snapshot(t, r).Events() {
			require.Greater(t, ev.Time(), began)
			_, err := kerneltest.Check(ev.Bytes())
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 20, n)
		require.NoError(t, r.Close())
	}
}

// An output too large for the ring destroys older events. The snapshot reports this and excludes
// the damaged part from its complete interval.
func TestKernelOversize(t *testing.T) {
	e := kerneltest.Load(t)
	cpu := kerneltest.OnlineCPUs(t)[0]
	r := open(t, e, flight.Options{MaxBytes: 1 << 20, CPUs: []int{cpu}})
	e.Emit(cpu, 100, 40)
	require.NoError(t, e.EmitHuge(cpu, 70000))
	e.Emit(cpu, 100, 40)
	s := snapshot(t, r)
	var corrupt *perfbuf.CorruptError
	require.ErrorAs(t, s.Rings()[0].Err, &corrupt)
	require.Equal(t, cpu, corrupt.CPU)
	require.Positive(t, s.Len())
	require.LessOrEqual(t, s.Len(), 100-6)
	next := uint64(200 - s.Len())
	for rec := range s.Records() {
		p, err := kerneltest.Check(rec.Data)
		require.NoError(t, err)
		require.Equal(t, next, p.Seq)
		next++
	}
}

// Goroutines call Snapshot and Close concurrently.
func TestKernelCloseWhileSnapshotting(t *testing.T) {
	leak.Check(t)
	e := kerneltest.Load(t)
	start(t, e, func(n int) int { return 24 + n%100 })
	for range 20 {
		r, err := flight.Open(e.MapFD(), flight.Options{})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					s, err := r.Snapshot(context.Background())
					if err != nil {
						if !errors.Is(err, os.ErrClosed) {
							t.Error(err)
						}
						return
					}
					r.Stats()
					for range s.Events() {
					}
					s.Release()
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		for range 2 {
			wg.Go(func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// A snapshot outlives its recorder.
func TestKernelSnapshotAfterClose(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, flight.Options{})
	e.Emit(kerneltest.OnlineCPUs(t)[0], 10, 40)
	s := snapshot(t, r)
	require.NoError(t, r.Close())
	require.Equal(t, span{0, 10}, check(t, s)[kerneltest.OnlineCPUs(t)[0]])
	s.Release()
	_, err := r.Snapshot(t.Context())
	require.ErrorIs(t, err, os.ErrClosed)
	e.Emit(kerneltest.OnlineCPUs(t)[0], 1, 40)
	require.Error(t, e.LastError(kerneltest.OnlineCPUs(t)[0])) // no entry is left
}

// Two recorders of two maps record independently. The second recorder of one map takes the map
// over, and keeps it when the first closes.
func TestKernelTwoRecorders(t *testing.T) {
	one, two := kerneltest.Load(t), kerneltest.Load(t)
	cpu := kerneltest.OnlineCPUs(t)[0]
	a, b := open(t, one, flight.Options{}), open(t, two, flight.Options{})
	one.Emit(cpu, 3, 40)
	two.Emit(cpu, 5, 40)
	require.Equal(t, 3, snapshot(t, a).Len())
	require.Equal(t, 5, snapshot(t, b).Len())
	c := open(t, one, flight.Options{})
	require.Equal(t, len(kerneltest.OnlineCPUs(t)), c.Stats().ReplacedEntries)
	one.Emit(cpu, 7, 40)
	require.Equal(t, 3, snapshot(t, a).Len())
	require.Equal(t, 7, snapshot(t, c).Len())
	if kerneltest.AtLeast(t, 5, 10) {
		require.NoError(t, a.Close())
		one.Emit(cpu, 2, 40)
		require.Equal(t, 9, snapshot(t, c).Len())
	}
}

func TestKernelOpenErrors(t *testing.T) {
	leak.Check(t)
	e := kerneltest.Load(t)
	var wrong *perfbuf.MapError
	_, err := flight.Open(e.ArrayFD(), flight.Options{})
	require.ErrorAs(t, err, &wrong)
	_, err = flight.Open(-1, flight.Options{})
	require.ErrorContains(t, err, "not an open file descriptor")
	_, err = flight.Open(e.ProgFD(), flight.Options{})
	require.ErrorContains(t, err, "not a BPF map")
	for _, o := range []flight.Options{
		{MaxBytes: 1}, {MaxBytes: -1}, {MinAge: -1}, {CPUs: []int{}}, {CPUs: []int{5000}}, {CPUs: []int{0, 0}}, {MaxBytes: 1 << 45},
		{Time: perfbuf.StampedTime(0)}, {Time: perfbuf.PayloadBootTime(0)}, {Time: perfbuf.PayloadTime(-1)}, {Time: perfbuf.PayloadTime(-8)}, {Barriers: perfbuf.NestLevels},
	} {
		_, err = flight.Open(e.MapFD(), o)
		require.ErrorContainsf(t, err, "flight.Options", "%+v", o)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fs.ErrExist)
	r := open(t, e, flight.Options{})
	for range 10 {
		_, err = r.Snapshot(ctx)
		require.ErrorIs(t, err, fs.ErrExist)
	}
}
