package perfdata_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// full is a device with room for some writes.
type full struct{ left int }

var errFull = errors.New("no room")

func (f *full) Write(b []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// The first write that fails ends the recording, and every call says so.
func TestNoRoom(t *testing.T) {
	_, err := perfdata.NewRecorder(&full{}, perfdata.Options{})
	require.ErrorIs(t, err, errFull)
	rec, err := perfdata.NewRecorder(&full{left: 2}, perfdata.Options{})
	require.NoError(t, err)
	k, r := simulated(t, perfbuf.Options{})
	s := unordered(t, r)
	one := func() error {
		require.NoError(t, k.Output(0, []byte("one")))
		return s.ForEach(func(ev perfbuf.Event) error { return errors.Join(rec.Record(ev), rec.Flush()) })
	}
	require.NoError(t, one())
	require.ErrorIs(t, one(), errFull)
	require.ErrorIs(t, one(), errFull)
	require.ErrorContains(t, rec.Flush(), "the file is complete up to here")
	require.ErrorIs(t, rec.Close(), errFull)
	require.Equal(t, os.ErrClosed, rec.Close())
	require.EqualValues(t, 1, rec.Stats().Samples)
}

// A recording that does not begin has no part that is complete.
func TestNoRoomForTheHeader(t *testing.T) {
	for path, want := range map[string]error{"/dev/full": syscall.ENOSPC, filepath.Join(t.TempDir(), "no", "dir"): os.ErrNotExist} {
		_, err := perfdata.Create(path, perfdata.Options{})
		require.ErrorIs(t, err, want)
		require.NotContains(t, err.Error(), "complete")
	}
}

// A recording has its name as soon as it can be read, a snapshot when it is complete. A previous
// file of that name stays, as the old one.
func TestNames(t *testing.T) {
	for _, until := range []uint64{0, 1} {
		path := filepath.Join(t.TempDir(), "x.data")
		var before os.FileInfo
		for range 3 {
			rec, err := perfdata.Create(path, perfdata.Options{Until: until})
			require.NoError(t, err)
			now, err := os.Stat(path)
			if until == 0 {
				require.NoError(t, err)
				require.False(t, os.SameFile(before, now))
				_, err = replayed(t, path, perfdata.ReplayOptions{}, nil)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			} else if before != nil {
				require.True(t, os.SameFile(before, now))
			} else {
				require.ErrorIs(t, err, os.ErrNotExist)
			}
			require.NoError(t, rec.Close())
			old, err := os.Stat(path + ".old")
			if before != nil {
				require.True(t, os.SameFile(before, old))
			} else {
				require.ErrorIs(t, err, os.ErrNotExist)
			}
			before, err = os.Stat(path)
			require.NoError(t, err)
			_, err = replayed(t, path, perfdata.ReplayOptions{}, nil)
			require.Equal(t, io.EOF, err)
		}
	}
}

// An open file gets the format for pipes.
func TestOpenFile(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	path := fmt.Sprint("/dev/fd/", w.Fd())
	rec, err := perfdata.Create(path, perfdata.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, rec.Close())
	b, err := io.ReadAll(r) // until all have closed it
	require.NoError(t, err)
	require.Equal(t, "PERFILE2\x10\x00\x00\x00\x00\x00\x00\x00", string(b[:16]))
	_, err = perfdata.Create("/dev/null", perfdata.Options{MaxBytes: 1 << 20})
	require.ErrorContains(t, err, "with the path of a file")
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]perfdata.Options{
		"BufferBytes is 5":                   {BufferBytes: 5},
		"MaxBytes is 1":                      {MaxBytes: 1},
		"MaxBytes is -1":                     {MaxBytes: -1},
		"only one file":                      {MaxFiles: 2},
		"set both":                           {Since: 1},
		"event's name has ":                  {Events: []perfdata.EventInfo{{Name: "a\x00b"}}},
		"two of Events are named \"output\"": {Events: []perfdata.EventInfo{{}, {Name: "output"}}},
	} {
		_, err := perfdata.Create(filepath.Join(t.TempDir(), "x"), o)
		require.ErrorContains(t, err, want)
	}
	_, err := perfdata.NewRecorder(io.Discard, perfdata.Options{MaxBytes: 1 << 20})
	require.ErrorContains(t, err, "use Create")
	_, err = perfdata.NewRecorder(nil, perfdata.Options{})
	require.ErrorContains(t, err, "is nil")
}

func TestRecordDoesNotAllocate(t *testing.T) {
	if raw.Poison {
		t.Skip("readers allocate in the poison build")
	}
	rec, err := perfdata.NewRecorder(io.Discard, perfdata.Options{})
	require.NoError(t, err)
	k, r := simulated(t, perfbuf.Options{})
	payload := make([]byte, 1000)
	record, s := rec.Record, unordered(t, r)
	require.Zero(t, testing.AllocsPerRun(3000, func() { // some buffers full
		k.Output(0, payload)
		s.ForEach(record)
	}))
}

// Each source of a merged stream has its own event in the file, and one is replayed at a time.
func TestSources(t *testing.T) {
	k1, r1 := simulated(t, perfbuf.Options{})
	k2, r2 := simulated(t, perfbuf.Options{Name: "second"})
	path := record(t, perfdata.Options{Events: []perfdata.EventInfo{{Name: "first"}, {Name: "second"}}}, func(rec *perfdata.Recorder) {
		for _, k := range []*perfbuftest.Kernel{k1, k1, k1, k2, k2, k2, k2} {
			require.NoError(t, k.Output(0, []byte("same")))
		}
		require.NoError(t, unordered(t, r1).ForEach(rec.Record))
		require.NoError(t, unordered(t, r2).ForEach(rec.Record))
	})
	_, err := perfdata.Open(path, perfdata.ReplayOptions{})
	require.ErrorContains(t, err, `"first" (type 1, config 10); "second"`)
	for name, n := range map[string]int{"first": 3, "second": 4} {
		got, err := replayed(t, path, perfdata.ReplayOptions{Event: name}, &perfbuf.StreamOptions{})
		require.Equal(t, io.EOF, err)
		require.Len(t, got, n)
	}
	_, err = perfdata.Open(path, perfdata.ReplayOptions{Event: "third"})
	require.ErrorContains(t, err, "no event can be replayed")
}

// Run returns the unchanged error that ended it.
func TestRunReturnsTheCause(t *testing.T) {
	_, reader := simulated(t, perfbuf.Options{})
	rec, err := perfdata.Create(filepath.Join(t.TempDir(), "x"), perfdata.Options{})
	require.NoError(t, err)
	defer rec.Close()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	require.True(t, rec.Run(ctx, unordered(t, reader)) == cause)
}
