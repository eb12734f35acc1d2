package perfdata_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// The times of a snapshot come back from a pipe's file, those of the events from others.
func TestTimes(t *testing.T) {
	ten := func(rec *perfdata.Recorder) { emitted(t, rec, 10, true) }
	since, until, err := perfdata.Times(piped(t, perfdata.Options{Since: 5, Until: 7_200_000_000_000}, ten))
	require.NoError(t, err)
	require.Equal(t, []uint64{5, 7_200_000_000_000}, []uint64{since, until})

	since, until, err = perfdata.Times(record(t, perfdata.Options{}, ten))
	require.NoError(t, err)
	require.Equal(t, []uint64{3_600_001_000_000, 3_600_010_000_000}, []uint64{since, until})
	since, until, err = perfdata.Times("testdata/golden.perf.data") // not closed
	require.NoError(t, err)
	require.Zero(t, since+until)
	_, _, err = perfdata.Times(os.DevNull)
	require.ErrorContains(t, err, "is not a regular file")
}

// Names and BTF come back from files and from pipes.
func TestEvents(t *testing.T) {
	want := []perfdata.EventInfo{{Name: "execs", BTF: []byte("a type")}, {Name: "plain"}, {Name: "exits", BTF: []byte("another")}}
	ten := func(rec *perfdata.Recorder) { emitted(t, rec, 10, true) }
	path := record(t, perfdata.Options{Events: want}, ten)
	for _, file := range []string{path, piped(t, perfdata.Options{Events: want}, ten)} {
		got, err := perfdata.Events(file)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}

	// Of a recording that was not closed there are names and BTF too.
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	clear(whole[72:104])
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	got, err := perfdata.Events(path)
	require.NoError(t, err)
	require.Equal(t, want, got)

	_, err = perfdata.Events(os.DevNull)
	require.ErrorContains(t, err, "is not a regular file")
	_, err = perfdata.Events(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("text "), 50), 0o600))
	_, err = perfdata.Events(path)
	require.ErrorContains(t, err, "not a perf.data file")
}
