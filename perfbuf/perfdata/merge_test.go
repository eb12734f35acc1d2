package perfdata_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// scattered records numbered events, which come from sources in no regular turn, to a file each,
// and to a file of all.
func scattered(t *testing.T, n, files int) (paths []string, together string, of []int) {
	t.Helper()
	dir := t.TempDir()
	k, streams, recs := make([]*perfbuftest.Kernel, files), make([]*perfbuf.Stream, files), make([]*perfdata.Recorder, files)
	var all perfdata.Options
	var err error
	for i := range files {
		var r *perfbuf.Reader
		k[i], r = simulated(t, perfbuf.Options{Name: fmt.Sprint(i)})
		streams[i] = unordered(t, r)
		paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
		recs[i], err = perfdata.Create(paths[i], perfdata.Options{})
		require.NoError(t, err)
		all.Events = append(all.Events, perfdata.EventInfo{Name: fmt.Sprint(i)})
	}
	together = filepath.Join(dir, "all")
	rec, err := perfdata.Create(together, all)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	turn := 1
	for number := range n {
		for i := range files {
			k[i].Advance(time.Microsecond)
		}
		switch rnd.IntN(10) { // few of the first: its rings reach far back
		case 0:
			turn = rnd.IntN(files)
		case 1, 2:
			turn = 1 + rnd.IntN(files-1)
		}
		of = append(of, turn)
		require.NoError(t, k[turn].Output(number%2, binary.NativeEndian.AppendUint64(nil, uint64(number))))
		if rnd.IntN(50) == 0 || number == n-1 { // so that files are not in order
			for i, s := range streams {
				require.NoError(t, s.ForEach(func(ev perfbuf.Event) error {
					require.NoError(t, rec.Record(ev))
					return recs[i].Record(ev)
				}))
			}
		}
	}
	for _, r := range append(recs, rec) {
		require.NoError(t, r.Close())
	}
	return paths, together, of
}

// Recordings of several files, and several events of one, come in one order, with the reader that
// each event is of.
func TestMerge(t *testing.T) {
	const n = 30_000
	paths, together, of := scattered(t, n, 3)
	for _, order := range []perfbuf.StreamOptions{{}, {BarrierInterval: -1, Spill: perfbuf.Spill{Bytes: -1}}, {Order: perfbuf.Slack(time.Millisecond)}} {
		for _, one := range []bool{false, true} {
			var readers []*perfbuf.Reader
			for i, path := range paths {
				o := perfdata.ReplayOptions{Reader: perfbuf.Options{Name: fmt.Sprint(i), RingBytes: 4096}}
				if one {
					path, o.Event = together, fmt.Sprint(i)
				}
				readers = append(readers, opened(t, path, o))
			}
			s, err := perfbuf.Merge(order, readers...)
			require.NoError(t, err)
			number := 0
			require.Equal(t, io.EOF, s.Run(t.Context(), func(ev perfbuf.Event) error {
				if got := binary.NativeEndian.Uint64(ev.Bytes()); got != uint64(number) || ev.Late() || ev.Source() != fmt.Sprint(of[number]) {
					return fmt.Errorf("event %d comes in the place of %d: %v", got, number, ev)
				}
				number++
				return nil
			}))
			require.Equal(t, n, number)
			require.NoError(t, s.Close())
		}
	}
}

// Recordings that are taken out of a stream are replayed alone, or closed. Those that are left go
// on in order.
func TestMergeRemove(t *testing.T) {
	paths, _, of := scattered(t, 60_000, 3)
	var readers []*perfbuf.Reader
	for i, path := range paths {
		readers = append(readers, opened(t, path, perfdata.ReplayOptions{Reader: perfbuf.Options{Name: fmt.Sprint(i), RingBytes: 4096}}))
	}
	s, err := perfbuf.Merge(perfbuf.StreamOptions{Spill: perfbuf.Spill{Bytes: -1}}, readers...)
	require.NoError(t, err)
	defer s.Close()
	seen, want := map[string]int{}, 0
	require.Equal(t, io.EOF, s.Run(t.Context(), func(ev perfbuf.Event) error {
		require.False(t, ev.Late(), ev)
		seen[ev.Source()]++
		switch {
		case ev.Source() == "0" && seen[ev.Source()] == 1:
			require.NoError(t, s.Remove(readers[0]))
			require.NoError(t, readers[0].Close())
		case ev.Source() == "2" && seen[ev.Source()] == 5000:
			require.Less(t, s.Watermark(), ev.Time(), "it goes by the clock of those that are left")
			require.NoError(t, s.Remove(readers[2]))
		}
		return nil
	}))
	require.GreaterOrEqual(t, seen["2"], 5000)
	for _, file := range of {
		if file == 1 {
			want++
		}
	}
	require.Equal(t, want, seen["1"])
	require.Equal(t, io.EOF, unordered(t, readers[2]).Run(t.Context(), func(perfbuf.Event) error { return nil }))
	require.NoError(t, readers[1].Close())
	require.ErrorIs(t, s.Wait(t.Context()), os.ErrClosed)
}

// Last is that of all that are merged: of a recording that ends before, nothing is left.
func TestMergeLast(t *testing.T) {
	var readers []*perfbuf.Reader
	for _, n := range []int{10, 100} {
		path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) { emitted(t, rec, n, true) })
		readers = append(readers, opened(t, path, perfdata.ReplayOptions{Last: 9 * time.Millisecond, Reader: perfbuf.Options{Name: fmt.Sprint(n)}}))
	}
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, readers...)
	require.NoError(t, err)
	n := 0
	require.Equal(t, io.EOF, s.Run(t.Context(), func(ev perfbuf.Event) error {
		require.Equal(t, "100", ev.Source())
		n++
		return nil
	}))
	require.Equal(t, 10, n)
}

// Times of several machines are compared by the clock on the wall.
func TestMergeMachines(t *testing.T) {
	dir := t.TempDir()
	here := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) { emitted(t, rec, 100, true) })
	whole, err := os.ReadFile(here)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	i := bytes.Index(whole, append([]byte(host), 0))
	require.Positive(t, i)
	there := bytes.Clone(whole)
	there[i] ^= 1
	at := len(there) - 16 // of CLOCK_REALTIME, in the last feature
	binary.NativeEndian.PutUint64(there[at:], binary.NativeEndian.Uint64(there[at:])+uint64(50*time.Millisecond+time.Microsecond))
	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, there, 0o600))

	run := func(a, b perfdata.ReplayOptions) (order []int, err error) {
		b.Reader.Name = "other"
		r1, r2 := opened(t, here, a), opened(t, other, b)
		s, err := perfbuf.Merge(perfbuf.StreamOptions{}, r1, r2)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		first := uint64(0)
		return order, s.Run(t.Context(), func(ev perfbuf.Event) error {
			if first == 0 {
				first = ev.Time()
				require.Greater(t, first, uint64(1e18)) // ns since 1970
			}
			at := int((ev.Time() - first) / 1000)
			require.Equal(t, ev.Source() == "other", at%1000 == 1, at)
			order = append(order, at/1000)
			return nil
		})
	}
	_, err = run(perfdata.ReplayOptions{}, perfdata.ReplayOptions{})
	require.ErrorContains(t, err, "set ReplayOptions.WallClock")
	_, err = run(perfdata.ReplayOptions{WallClock: true}, perfdata.ReplayOptions{})
	require.ErrorContains(t, err, "all or none")
	_, err = run(perfdata.ReplayOptions{Speed: 1}, perfdata.ReplayOptions{})
	require.ErrorContains(t, err, "at the same ReplayOptions.Speed")
	order, err := run(perfdata.ReplayOptions{WallClock: true}, perfdata.ReplayOptions{WallClock: true})
	require.Equal(t, io.EOF, err)
	require.Len(t, order, 200)
	require.Equal(t, []int{48, 49, 50, 50, 51, 51}, order[48:54])
	start := time.Now()
	order, err = run(perfdata.ReplayOptions{WallClock: true, Speed: 1}, perfdata.ReplayOptions{WallClock: true, Speed: 1})
	require.Equal(t, io.EOF, err)
	require.Len(t, order, 200)
	require.GreaterOrEqual(t, time.Since(start), 148*time.Millisecond)

	_, err = perfdata.Open("testdata/golden.perf.data", perfdata.ReplayOptions{WallClock: true})
	require.ErrorContains(t, err, "does not have the time of day")
	_, live := simulated(t, perfbuf.Options{})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, opened(t, here, perfdata.ReplayOptions{}), live)
	if err == nil {
		err = s.Wait(context.Background())
		s.Close()
	}
	require.ErrorContains(t, err, "only be merged with recordings")
}
