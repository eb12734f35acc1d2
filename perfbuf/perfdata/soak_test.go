//go:build linux

package perfdata_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// child runs a test in a process of its own. There, its path is not empty.
func child(t *testing.T, path string, flags uintptr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "PERFDATA_TEST_CHILD="+path, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func childPath() string { return os.Getenv("PERFDATA_TEST_CHILD") }

// load records numbered events of many sizes as fast as it can. It calls flushed with the number of
// events written by each Flush, until that or the recorder fails.
func load(t *testing.T, rec *perfdata.Recorder, flushed func(n uint64) error) error {
	t.Helper()
	k, r := simulated(t, perfbuf.Options{RingBytes: 512 << 10})
	s := unordered(t, r)
	payload := make([]byte, 4096)
	for n := uint64(0); ; {
		for range 1 + rand.IntN(200) {
			binary.NativeEndian.PutUint64(payload, n)
			k.Advance(time.Microsecond)
			require.NoError(t, k.Output(int(n%2), payload[:8+rand.IntN(2000)]))
			n++
			if err := s.ForEach(rec.Record); err != nil { // each at once, for order of time
				return err
			}
		}
		if err := rec.Flush(); err != nil {
			return err
		}
		if err := flushed(n); err != nil {
			return err
		}
	}
}

// numbers requires that the events of a series of files follow each other, and that all files but
// the last are whole. It returns the numbers of the first event and of the next, and how the last
// file ends: nil if it has no header yet.
func numbers(t *testing.T, files []string) (first, next uint64, end error) {
	t.Helper()
	any := false
	for i, file := range files {
		st, err := os.Stat(file)
		require.NoError(t, err)
		last := i == len(files)-1
		if last && i > 0 && st.Size() < 1000 { // it was begun, and has no record
			return first, next, nil
		}
		var recs []perfbuf.Record
		recs, end = replayed(t, file, perfdata.ReplayOptions{}, &perfbuf.StreamOptions{})
		if end != io.EOF {
			require.ErrorIs(t, end, io.ErrUnexpectedEOF)
			require.True(t, last, "%s: %v", file, end)
		}
		for _, rec := range recs {
			n := binary.NativeEndian.Uint64(rec.Data)
			if !any {
				any, first, next = true, n, n
			}
			require.Equal(t, perfbuf.KindSample, rec.Kind)
			require.Equal(t, next, n, file)
			next++
		}
	}
	return first, next, end
}

var rotations = []perfdata.Options{
	{},
	{MaxBytes: 1 << 20, BufferBytes: 64 << 10},
	{MaxBytes: 1 << 20, MaxFiles: 3},
	{MaxAge: time.Millisecond, MaxFiles: 5},
	{MaxBytes: 2 << 20, MaxAge: 3 * time.Millisecond},
}

// A recorder that is killed at any moment, even while it begins a file, leaves files with all
// flushed events.
func TestKilledAnywhere(t *testing.T) {
	if path := childPath(); path != "" {
		name, which, _ := strings.Cut(path, "=")
		rec, err := perfdata.Create(name, rotations[which[0]-'0'])
		require.NoError(t, err)
		out := os.NewFile(3, "flushed")
		t.Fatal(load(t, rec, func(n uint64) error {
			_, err := out.Write(binary.NativeEndian.AppendUint64(nil, n))
			return err
		}))
	}
	runs := 20
	if testing.Short() {
		runs = 5
	}
	rotated, cut := 0, 0
	for run := range runs {
		dir := t.TempDir()
		o := rotations[run%len(rotations)]
		flushed := killed(t, fmt.Sprint(dir, "/soak=", run%len(rotations)))
		files, err := filepath.Glob(dir + "/*")
		require.NoError(t, err)
		slices.Sort(files)
		if len(files) > 1 {
			rotated++
		}
		if o.MaxFiles > 0 {
			require.LessOrEqual(t, len(files), o.MaxFiles)
		}
		first, next, end := numbers(t, files)
		if o.MaxFiles == 0 {
			require.Zero(t, first)
		}
		if errors.Is(end, io.ErrUnexpectedEOF) {
			cut++
			require.ErrorContains(t, end, "killed")
		}
		require.GreaterOrEqual(t, next, flushed, "%v", files)
		os.RemoveAll(dir)
	}
	require.Positive(t, rotated)
	require.Positive(t, cut)
}

// killed has a child record, kills it, and returns how many events it had flushed.
func killed(t *testing.T, path string) (flushed uint64) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := child(t, path, 0)
	cmd.ExtraFiles = []*os.File{w}
	var messages strings.Builder
	cmd.Stdout, cmd.Stderr = &messages, &messages
	require.NoError(t, cmd.Start())
	w.Close()
	b := make([]byte, 8)
	for n, kill := 0, 1+rand.IntN(200); ; n++ {
		if _, err := io.ReadFull(r, b); err != nil {
			break
		}
		flushed = binary.NativeEndian.Uint64(b)
		if n == kill {
			time.AfterFunc(rand.N(3*time.Millisecond), func() { cmd.Process.Kill() })
		}
	}
	cmd.Wait()
	require.True(t, cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled(), messages.String())
	return flushed
}

// A full disk ends a recording with an error, and the flushed events are readable. A series with
// MaxFiles that fits never fills it.
func TestDiskFull(t *testing.T) {
	dir := childPath()
	if dir == "" {
		if os.Getuid() != 0 {
			t.Skip("it takes root to mount a tmpfs")
		}
		out, err := child(t, t.TempDir(), syscall.CLONE_NEWNS).CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skip("it takes CAP_SYS_ADMIN to mount a tmpfs")
		}
		require.NoError(t, err, "%s", out)
		return
	}
	require.NoError(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=5m"))
	rec, err := perfdata.Create(filepath.Join(dir, "snapshot"), perfdata.Options{Until: 1})
	require.NoError(t, err)
	require.ErrorIs(t, load(t, rec, func(uint64) error { return nil }), syscall.ENOSPC)
	require.ErrorContains(t, rec.Close(), "the snapshot is not written")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	for i, o := range []perfdata.Options{{}, {BufferBytes: 64 << 10}, {MaxBytes: 1 << 20}} {
		path := filepath.Join(dir, "full")
		rec, err := perfdata.Create(path, o)
		require.NoError(t, err)
		flushed := uint64(0)
		err = load(t, rec, func(n uint64) error { flushed = n; return nil })
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "recording ends here, and the file is complete up to here")
		require.ErrorIs(t, rec.Close(), syscall.ENOSPC)
		files, _ := filepath.Glob(path + "*")
		first, next, end := numbers(t, files)
		require.Zero(t, first)
		if end != nil { // else the disk was full as the last file was begun
			require.ErrorContains(t, end, "ran out of room")
		}
		require.GreaterOrEqual(t, next, flushed, "options %d", i)
		require.Positive(t, next)
		for _, file := range files {
			os.Remove(file)
		}
	}
	rec, err = perfdata.Create(filepath.Join(dir, "fits"), perfdata.Options{MaxBytes: 1 << 20, MaxFiles: 3})
	require.NoError(t, err)
	enough := errors.New("enough")
	require.ErrorIs(t, load(t, rec, func(uint64) error {
		if rec.Stats().Files > 30 {
			return enough
		}
		return nil
	}), enough)
	require.NoError(t, rec.Close())
	_, err = perfdata.Create(filepath.Join(dir, "none", "x"), perfdata.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
}
