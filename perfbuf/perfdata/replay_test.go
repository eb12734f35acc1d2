package perfdata_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// replayed is all that a recording delivers, in order, and how it ends.
func replayed(t testing.TB, path string, o perfdata.ReplayOptions, order *perfbuf.StreamOptions) (recs []perfbuf.Record, err error) {
	t.Helper()
	r, err := perfdata.Open(path, o)
	require.NoError(t, err)
	defer r.Close()
	keep := func(ev perfbuf.Event) error {
		require.Equal(t, r.Options().Name, ev.Source())
		rec := ev.Record()
		rec.Source = ""
		recs = append(recs, rec)
		return nil
	}
	if order == nil {
		return recs, unordered(t, r).Run(t.Context(), keep)
	}
	s, err := r.Stream(*order)
	require.NoError(t, err)
	defer s.Close()
	err = s.Run(t.Context(), keep)
	for i, rec := range recs {
		require.False(t, rec.Late || i > 0 && rec.Time < recs[i-1].Time, rec)
		require.True(t, err != io.EOF || rec.Time <= s.Watermark())
	}
	return recs, err
}

// unordered is an unordered stream of a reader.
func unordered(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream {
	t.Helper()
	s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	return s
}

// samples are those of records that a recording has: in order, all that there is.
func samples(recs []perfbuf.Record) (out []perfbuf.Record) {
	for _, r := range recs {
		if r.Source = ""; r.Kind == perfbuf.KindSample && len(r.Data) <= perfdata.MaxSample {
			out = append(out, r)
		}
	}
	return out
}

// rest counts events other than samples, by CPU: a sample that is too large is a loss.
func rest(recs []perfbuf.Record) map[string]uint64 {
	n := map[string]uint64{}
	for _, r := range recs {
		switch {
		case r.Kind == perfbuf.KindCorrupt:
			n[fmt.Sprint("corrupt ", r.CPU)]++
		case r.Kind == perfbuf.KindLost:
			n[fmt.Sprint("lost ", r.CPU)] += r.Lost
		case len(r.Data) > perfdata.MaxSample:
			n[fmt.Sprint("lost ", r.CPU)]++
		}
	}
	return n
}

func TestReplay(t *testing.T) {
	var recorded []perfbuf.Record
	path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) { recorded = mixed(t, rec) })
	want := samples(recorded)
	require.Equal(t, map[string]uint64{"lost 0": 1, "lost 1": 1, "corrupt 1": 1}, rest(recorded))
	for _, order := range []perfbuf.StreamOptions{{}, {Order: perfbuf.Slack(time.Millisecond)}, {BarrierInterval: -1}} {
		got, err := replayed(t, path, perfdata.ReplayOptions{}, &order)
		require.Equal(t, io.EOF, err)
		require.Equal(t, want, samples(got))
		require.Equal(t, rest(recorded), rest(got))
	}
	got, err := replayed(t, path, perfdata.ReplayOptions{}, nil)
	require.Equal(t, io.EOF, err)
	require.ElementsMatch(t, want, samples(got))
	require.Equal(t, rest(recorded), rest(got))
	got, err = replayed(t, path, perfdata.ReplayOptions{Reader: perfbuf.Options{CPUs: []int{1}}}, &perfbuf.StreamOptions{})
	require.Equal(t, io.EOF, err)
	require.Equal(t, slices.DeleteFunc(want, func(r perfbuf.Record) bool { return r.CPU != 1 }), samples(got))
}

// All of a file that does not fit into the rings comes in order, also if the file is not.
func TestReplayMoreThanFits(t *testing.T) {
	const n = 50_000
	for _, sorted := range []bool{true, false} {
		path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) { emitted(t, rec, n, sorted) })
		for _, order := range []perfbuf.StreamOptions{{}, {BarrierInterval: -1, Spill: perfbuf.Spill{Bytes: -1}}, {Order: perfbuf.Slack(10 * time.Millisecond)}} {
			recs, err := replayed(t, path, perfdata.ReplayOptions{Reader: perfbuf.Options{RingBytes: 4096}}, &order)
			require.Equal(t, io.EOF, err)
			require.Len(t, samples(recs), n)
		}
	}
}

// A file cut anywhere is replayed up to there, and the replay reports the cut at the end, unless
// the header is missing.
func TestCutAnywhere(t *testing.T) {
	file := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) { emitted(t, rec, 8, true) })
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	all, err := replayed(t, file, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
	require.Equal(t, io.EOF, err)
	require.Len(t, all, 8)
	path := filepath.Join(t.TempDir(), "cut.data")
	most := 0
	for n := range whole {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		r, err := perfdata.Open(path, perfdata.ReplayOptions{})
		if err != nil {
			require.ErrorContains(t, err, "at offset")
			continue
		}
		require.NoError(t, r.Close())
		got, err := replayed(t, path, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
		require.GreaterOrEqual(t, len(got), most)
		most = len(got)
		require.Equal(t, append([]perfbuf.Record{}, all[:most]...), append([]perfbuf.Record{}, got...))
		if most < 8 {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.ErrorContains(t, err, "cut")
		} else {
			require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), err)
		}
	}
	require.Equal(t, 8, most)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-1], 0o600))
	_, err = replayed(t, path, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
	require.ErrorContains(t, err, "cut behind the records")
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "series")
	rec, err := perfdata.Create(path, perfdata.Options{MaxBytes: 1 << 20, BufferBytes: 64 << 10, MaxFiles: 3})
	require.NoError(t, err)
	const n = 50_000
	emitted(t, rec, n, true)
	require.NoError(t, rec.Close())
	require.Equal(t, os.ErrClosed, rec.Close())
	files, err := filepath.Glob(path + ".*")
	require.NoError(t, err)
	require.Len(t, files, 3)
	require.Greater(t, rec.Stats().Files, uint64(3))
	require.Equal(t, fmt.Sprintf("%s.%06d", path, rec.Stats().Files-2), files[0])
	var all []perfbuf.Record
	for _, file := range files {
		st, err := os.Stat(file)
		require.NoError(t, err)
		require.LessOrEqual(t, st.Size(), int64(1<<20+8192))
		recs, err := replayed(t, file, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
		require.Equal(t, io.EOF, err)
		require.Contains(t, perf(t, "report", "--header-only", "-i", file), "name = output")
		all = append(all, recs...)
	}
	for i := range all[1:] {
		require.Less(t, all[i].Time, all[i+1].Time)
	}
	again, err := perfdata.Create(path, perfdata.Options{MaxAge: time.Nanosecond, BufferBytes: 64 << 10})
	require.NoError(t, err)
	emitted(t, again, 3000, true)
	require.NoError(t, again.Close())
	require.Greater(t, again.Stats().Files, uint64(2))
	more, _ := filepath.Glob(path + ".*")
	require.Equal(t, files, more[:3], "an earlier recording stays")
	other := path + ".12" // is none of the series
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	fewer, err := perfdata.Create(path, perfdata.Options{MaxAge: time.Hour, MaxFiles: 2})
	require.NoError(t, err)
	require.NoError(t, fewer.Close())
	left, _ := filepath.Glob(path + ".*")
	require.Equal(t, []string{more[len(more)-1], fmt.Sprintf("%s.%06d", path, rec.Stats().Files+again.Stats().Files+1), other}, left)
}

func TestSpeed(t *testing.T) {
	for _, c := range []struct {
		events int // one a millisecond
		speed  float64
		order  *perfbuf.StreamOptions
		least  time.Duration
	}{
		{100, 1, nil, 99 * time.Millisecond},
		{100, 0.5, nil, 198 * time.Millisecond},
		{100, 1, &perfbuf.StreamOptions{}, 99 * time.Millisecond},
		{100, 0.5, &perfbuf.StreamOptions{}, 198 * time.Millisecond},
		{6000, 10, &perfbuf.StreamOptions{}, 599 * time.Millisecond},
	} {
		path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) { emitted(t, rec, c.events, true) })
		start := time.Now()
		recs, err := replayed(t, path, perfdata.ReplayOptions{Speed: c.speed}, c.order)
		require.Equal(t, io.EOF, err)
		require.Len(t, recs, c.events)
		require.GreaterOrEqual(t, time.Since(start), c.least)
	}
	for _, o := range []perfdata.ReplayOptions{{Speed: -1}, {Speed: math.NaN()}, {Speed: math.Inf(1)}, {Last: -1}} {
		_, err := perfdata.Open("testdata/golden.perf.data", o)
		require.ErrorContains(t, err, "Speed")
	}
}

// The last part of a recording is replayed without waiting for the earlier part.
func TestLast(t *testing.T) {
	for _, sorted := range []bool{true, false} {
		path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) { emitted(t, rec, 3_000, sorted) })
		all, err := replayed(t, path, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
		require.Equal(t, io.EOF, err)
		for last, want := range map[time.Duration]int{1: 1, 9 * time.Millisecond: 10, time.Hour: 3000, 0: 3000} {
			o := perfdata.ReplayOptions{Last: last, Speed: 1}
			if want > 10 {
				o.Speed = 0
			}
			recs, err := replayed(t, path, o, &perfbuf.StreamOptions{})
			require.Equal(t, io.EOF, err)
			require.Equal(t, all[3000-want:], recs)
		}
	}
}

func TestReplayEnds(t *testing.T) {
	path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) { emitted(t, rec, 50_000, true) })
	r := opened(t, path, perfdata.ReplayOptions{Speed: 1})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(5*time.Millisecond, cancel)
	s := unordered(t, r)
	require.ErrorIs(t, s.Run(ctx, func(perfbuf.Event) error { return nil }), context.Canceled)
	require.NoError(t, r.Close())
	<-r.Done()
	require.Equal(t, os.ErrClosed, s.Wait(t.Context()))
}

// A file of a newer perf is read: records of types that are not known yet are passed over, among
// them PERF_RECORD_CALLCHAIN_DEFERRED (22), and so is the end of a longer perf_event_attr.
func TestNewerPerf(t *testing.T) {
	path := piped(t, perfdata.Options{}, func(rec *perfdata.Recorder) { mixed(t, rec) })
	want, end := replayed(t, path, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
	require.Equal(t, io.EOF, end)
	require.NotEmpty(t, want)
	const header, attrSize, longer, headerAttr = 8, 112, 32, 64
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	out, put := b[:2*header:2*header], binary.NativeEndian
	for rest := b[2*header:]; len(rest) > 0; {
		size := put.Uint16(rest[6:])
		typ, rec := put.Uint32(rest), slices.Clone(rest[:size])
		if rest = rest[size:]; typ == headerAttr {
			rec = slices.Insert(rec, header+attrSize, make([]byte, longer)...)
			put.PutUint16(rec[6:], size+longer)
			put.PutUint32(rec[header+4:], attrSize+longer)
		}
		out = append(out, rec...)
		for _, unknown := range []uint32{22, 63, 84, 1000} {
			if typ < headerAttr || unknown > headerAttr { // the kernel's come behind the header's
				out = put.AppendUint16(put.AppendUint16(put.AppendUint32(out, unknown), 0), 48)
				out = append(out, bytes.Repeat([]byte{0xff}, 40)...) // as a loss or a time that would be wrong
			}
		}
	}
	newer := filepath.Join(t.TempDir(), "newer.data")
	require.NoError(t, os.WriteFile(newer, out, 0o600))
	got, end := replayed(t, newer, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
	require.Equal(t, io.EOF, end)
	require.Equal(t, want, got)
}
