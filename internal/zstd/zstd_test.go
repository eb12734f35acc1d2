// Package zstd tests compressed recordings. It is a module of its own, to keep the compressor's
// dependency separate.
package zstd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { leak.Main(m) }

func encoder(t testing.TB) *zstd.Encoder {
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return enc
}

func decoder(t testing.TB) *zstd.Decoder {
	dec, err := zstd.NewReader(nil)
	require.NoError(t, err)
	t.Cleanup(dec.Close)
	return dec
}

// load records numbered events, of which every third does not compress, and a loss. It flushes
// after each of flush events.
func load(t testing.TB, rec *perfdata.Recorder, n, flush int) {
	k := perfbuftest.New(perfbuftest.Options{})
	r, err := k.Open(perfbuf.Options{RingBytes: 64 << 10})
	require.NoError(t, err)
	defer r.Close()
	s := unordered(t, r)
	noise := rand.NewChaCha8([32]byte{})
	for i := range n {
		payload := make([]byte, 8+i%500)
		if i%3 == 0 {
			noise.Read(payload)
		}
		binary.NativeEndian.PutUint64(payload, uint64(i))
		k.Advance(time.Microsecond)
		require.NoError(t, k.Output(i%2, payload))
		require.NoError(t, s.ForEach(rec.Record))
		if i%flush == flush-1 {
			require.NoError(t, rec.Flush())
		}
	}
	for k.Advance(time.Microsecond); k.Output(0, make([]byte, 1000)) == nil; k.Advance(time.Microsecond) {
	}
	require.NoError(t, s.ForEach(rec.Record))
	require.NoError(t, k.Output(0, []byte("after the loss")))
	require.NoError(t, s.ForEach(rec.Record))
}

// unordered is an unordered stream of a reader.
func unordered(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream {
	t.Helper()
	s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	return s
}

// replayed returns a file's records and the error at its end.
func replayed(t testing.TB, path string) (recs []perfbuf.Record, err error) {
	r, err := perfdata.Open(path, perfdata.ReplayOptions{Decompress: decoder(t), Event: "output"})
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	defer s.Close()
	return recs, s.Run(t.Context(), func(ev perfbuf.Event) error {
		rec := ev.Record()
		rec.Source = ""
		recs = append(recs, rec)
		return nil
	})
}

func perf(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(kerneltest.RequireCommand(t, "perf"), args...)
	cmd.Env = append(os.Environ(), "PAGER=cat")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	return string(out)
}

// script returns perf script's output for a file.
func script(t *testing.T, path string) string {
	return perf(t, "script", "-i", path, "-F", "cpu,time,event,bpf-output", "--ns", "--show-lost-events")
}

// A compressed recording has the same records as an uncompressed one, for perf and for replays. So
// do an unclosed one and a pipe's.
func TestSame(t *testing.T) {
	for _, flush := range []int{1, 100, 1 << 30} {
		n := 5000
		if flush == 1 {
			n = 500
		}
		dir := t.TempDir()
		plain, packed, killed, piped := dir+"/plain", dir+"/packed", dir+"/killed", dir+"/piped"
		rec, err := perfdata.Create(plain, perfdata.Options{})
		require.NoError(t, err)
		load(t, rec, n, flush)
		require.NoError(t, rec.Close())
		rec, err = perfdata.Create(packed, perfdata.Options{Compress: encoder(t)})
		require.NoError(t, err)
		load(t, rec, n, flush)
		require.NoError(t, rec.Flush())
		b, err := os.ReadFile(packed)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(killed, b, 0o600))
		require.NoError(t, rec.Close())
		out, err := os.Create(piped)
		require.NoError(t, err)
		rec, err = perfdata.NewRecorder(out, perfdata.Options{Compress: encoder(t)})
		require.NoError(t, err)
		load(t, rec, n, flush)
		require.NoError(t, rec.Close())
		require.NoError(t, out.Close())

		want, err := replayed(t, plain)
		require.Equal(t, io.EOF, err)
		text := script(t, plain)
		require.Contains(t, text, "LOST")
		if flush > 1 {
			require.Less(t, int64(len(b)), size(t, plain)*2/3)
		}
		for _, path := range []string{packed, killed, piped} {
			got, err := replayed(t, path)
			if path == killed {
				require.ErrorContains(t, err, "killed")
			} else {
				require.Equal(t, io.EOF, err)
			}
			require.Equal(t, want, got)
			require.Equal(t, text, script(t, path), path)
		}
		require.Contains(t, perf(t, "report", "--header-only", "-i", packed), "compressed : Zstd")
		dump := perf(t, "report", "-D", "-i", packed)
		require.Equal(t, strings.Count(perf(t, "report", "-D", "-i", plain), "PERF_RECORD_SAMPLE("), strings.Count(dump, "PERF_RECORD_SAMPLE("))
	}
}

func size(t *testing.T, path string) int64 {
	st, err := os.Stat(path)
	require.NoError(t, err)
	return st.Size()
}

// Each file of a series is decompressed alone.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "series")
	rec, err := perfdata.Create(path, perfdata.Options{MaxBytes: 1 << 20, BufferBytes: 64 << 10, Compress: encoder(t)})
	require.NoError(t, err)
	load(t, rec, 50_000, 1000)
	require.NoError(t, rec.Close())
	files, err := filepath.Glob(path + ".*")
	require.NoError(t, err)
	require.Greater(t, len(files), 2)
	n := uint64(0)
	for _, file := range files {
		require.LessOrEqual(t, size(t, file), int64(1<<20+8192))
		recs, err := replayed(t, file)
		require.Equal(t, io.EOF, err)
		for _, rec := range recs {
			if n < 50_000 {
				require.Equal(t, n, binary.NativeEndian.Uint64(rec.Data))
				n++
			}
		}
	}
	require.EqualValues(t, 50_000, n)
}

// A file that was cut anywhere, or has a wrong byte, yields the records before that point, and an
// error.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	rec, err := perfdata.Create(path, perfdata.Options{Compress: encoder(t)})
	require.NoError(t, err)
	load(t, rec, 300, 50)
	require.NoError(t, rec.Close())
	all, err := replayed(t, path)
	require.Equal(t, io.EOF, err)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	data, end := int(binary.NativeEndian.Uint64(whole[40:])), int(binary.NativeEndian.Uint64(whole[40:])+binary.NativeEndian.Uint64(whole[48:]))
	most := 0
	for n := data; n < end; n += 37 {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		if n < data+200 {
			if r, err := perfdata.Open(path, perfdata.ReplayOptions{Decompress: decoder(t)}); err != nil {
				continue // no event is named yet
			} else {
				r.Close()
			}
		}
		got, err := replayed(t, path)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorContains(t, err, "cut")
		require.GreaterOrEqual(t, len(got), most)
		most = len(got)
		require.Equal(t, append([]perfbuf.Record{}, all[:most]...), append([]perfbuf.Record{}, got...))
	}
	require.Greater(t, most, 200)
	for range 300 {
		bad := bytes.Clone(whole)
		bad[data+200+rand.IntN(end-data-200)] ^= byte(1 + rand.IntN(255))
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		r, err := perfdata.Open(path, perfdata.ReplayOptions{Decompress: decoder(t)})
		if err != nil {
			require.ErrorContains(t, err, "perfdata: ")
			continue
		}
		n := 0
		err = unordered(t, r).Run(t.Context(), func(perfbuf.Event) error { n++; return nil })
		require.True(t, err == io.EOF || strings.Contains(err.Error(), "unexpected EOF"), err)
		r.Close()
	}
}

func TestErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	rec, err := perfdata.Create(path, perfdata.Options{Compress: encoder(t)})
	require.NoError(t, err)
	load(t, rec, 10, 5)
	require.NoError(t, rec.Close())
	_, err = perfdata.Open(path, perfdata.ReplayOptions{})
	require.ErrorContains(t, err, "set ReplayOptions.Decompress")
	events, err := perfdata.Events(path)
	require.NoError(t, err)
	require.Equal(t, []perfdata.EventInfo{{Name: "output"}}, events)
	t.Setenv("TMPDIR", "/nonexistent")
	_, err = perfdata.Open(path, perfdata.ReplayOptions{Decompress: decoder(t)})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A file of perf record -z.
func TestPerfRecord(t *testing.T) {
	e := kerneltest.Load(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	cpus, stop := kerneltest.PerfRecord(t, e, path, "-z")
	for i := range 1000 {
		e.Emit(cpus[i%len(cpus)], 3, kerneltest.MinSize+i%100)
	}
	stop()
	require.Contains(t, perf(t, "report", "--header-only", "-i", path), "compressed : Zstd")
	r, err := perfdata.Open(path, perfdata.ReplayOptions{Event: "emitted", Decompress: decoder(t)})
	require.NoError(t, err)
	defer r.Close()
	n := 0
	require.Equal(t, io.EOF, unordered(t, r).Run(t.Context(), func(ev perfbuf.Event) error {
		if ev.Kind() != perfbuf.KindSample {
			return fmt.Errorf("%v", ev)
		}
		n++
		_, err := kerneltest.Check(ev.Bytes())
		return err
	}))
	require.GreaterOrEqual(t, n, 3000+len(cpus))
}
