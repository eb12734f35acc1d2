package newfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	require.NoError(t, os.Chmod(path, 0o666))
	return path
}

// is requires that a path is a regular file of ours, for us alone, with this text.
func is(t *testing.T, path, text string) {
	t.Helper()
	st, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), st.Mode())
	require.EqualValues(t, os.Geteuid(), st.Sys().(*syscall.Stat_t).Uid)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(b))
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// The file at a path is always new, and the previous one becomes the old one.
func TestKeep(t *testing.T) {
	for what, prepare := range map[string]func(t *testing.T, path, victim string){
		"nothing":         func(*testing.T, string, string) {},
		"an empty file":   func(t *testing.T, path, _ string) { write(t, path, "") },
		"a file":          func(t *testing.T, path, _ string) { write(t, path, "before") },
		"a link":          func(t *testing.T, path, victim string) { require.NoError(t, os.Symlink(victim, path)) },
		"a hard link":     func(t *testing.T, path, victim string) { require.NoError(t, os.Link(victim, path)) },
		"a link nowhere":  func(t *testing.T, path, victim string) { require.NoError(t, os.Symlink(victim+"2", path)) },
		"a link to links": func(t *testing.T, path, victim string) { require.NoError(t, os.Symlink(path, path)) },
		"an old one": func(t *testing.T, path, victim string) {
			write(t, path, "before")
			require.NoError(t, os.Symlink(victim, path+".old"))
		},
		"somebody else's file": func(t *testing.T, path, victim string) {
			write(t, path, "before")
			if os.Geteuid() == 0 {
				require.NoError(t, os.Chown(path, 65534, 65534))
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			victim, dir := write(t, filepath.Join(t.TempDir(), "victim"), "important"), t.TempDir()
			path := filepath.Join(dir, "x.data")
			prepare(t, path, victim)
			before, gone := os.Lstat(path)

			f, err := Create(path)
			require.NoError(t, err)
			_, err = f.WriteString("new")
			require.NoError(t, err)
			if now, err := os.Lstat(path); gone == nil {
				require.True(t, os.SameFile(before, now))
			} else {
				require.ErrorIs(t, err, fs.ErrNotExist)
			}
			is(t, f.Name(), "new")
			require.NoError(t, f.Keep())
			require.NoError(t, f.Discard())

			is(t, path, "new")
			if old, err := os.Lstat(path + ".old"); gone == nil && before.Size() > 0 {
				require.True(t, os.SameFile(before, old))
			} else {
				require.ErrorIs(t, err, fs.ErrNotExist)
			}
			b, err := os.ReadFile(victim)
			require.NoError(t, err)
			require.Equal(t, "important", string(b))
			require.Subset(t, []string{"x.data", "x.data.old"}, names(t, dir))
		})
	}
}

// Keep also preserves a file that somebody makes at the path meanwhile, unless it is empty.
func TestKeepMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.data")
	f, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	require.NoError(t, errors.Join(f.Keep(), f.Discard()))
	is(t, path, "")
	old, err := os.Lstat(path + ".old")
	require.NoError(t, err)
	require.Equal(t, fs.ModeNamedPipe, old.Mode().Type())
}

// Discarded or checked files leave no trace.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "x.data"), "before")
	f, err := Create(path)
	require.NoError(t, err)
	require.Len(t, names(t, dir), 2)
	require.NoError(t, f.Discard())
	require.NoError(t, Check(path))
	require.NoError(t, Check(filepath.Join(dir, "other")))
	require.Equal(t, []string{"x.data"}, names(t, dir))
}

// Check finds out that there is no room.
func TestNoRoom(t *testing.T) {
	dir := t.TempDir()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: limit.Max}))
	err := Check(filepath.Join(dir, "x.data"))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	require.ErrorIs(t, err, syscall.EFBIG)
	require.Empty(t, names(t, dir))
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for path, want := range map[string]string{
		dir:                             "is a directory",
		fifo:                            "is not a regular file: choose another name",
		filepath.Join(dir, "none", "x"): "open " + filepath.Join(dir, "none", "x") + ": no such file",
	} {
		_, err := Create(path)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, Check(path), want)
	}
	require.Equal(t, []string{"fifo"}, names(t, dir))
}

// Devices and open files are written to as they are, and links to these only where nobody else
// makes them.
func TestSpecial(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	fd := fmt.Sprint(w.Fd())
	for _, path := range []string{"/dev/null", "/proc/self/fd/" + fd, "/dev/fd/" + fd} {
		require.True(t, Special(path))
		require.NoError(t, Check(path))
		f, err := Create(path)
		require.NoError(t, err)
		_, err = f.WriteString("x")
		require.NoError(t, err)
		require.NoError(t, f.Keep())
		require.NoError(t, f.Discard())
	}
	require.NoError(t, w.Close())
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "xx", string(b))

	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	require.NoError(t, err)
	defer file.Close()
	for range 2 { // existing files stay
		f, err := Create(fmt.Sprint("/proc/self/fd/", file.Fd()))
		require.NoError(t, err)
		_, err = f.WriteString("x")
		require.NoError(t, errors.Join(err, f.Discard()))
	}
	b, err = os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Equal(t, "xx", string(b))

	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/dev/null", link))
	require.False(t, Special(link))
	require.True(t, Special("/dev/stdout"))
	t.Chdir("/dev")
	require.True(t, Special("stdout"))
}

// Clash finds a file that is also read or written, under any name.
func TestClash(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"a", "b", "old.old"} {
		write(t, name, name)
	}
	require.NoError(t, os.Link("a", "hard"))
	require.NoError(t, os.Symlink("a", "soft"))
	require.NoError(t, os.Mkdir("sub", 0o700))
	for _, c := range []struct {
		path, read, written, want string
	}{
		{"a", "a", "", "a is read"}, {"a", "./a", "", "./a is read"}, {"sub/../a", "a", "", "is read"}, {"hard", "a", "", "is read"},
		{"soft", "a", "", "is read"}, {dir + "/a", "a", "", "is read"}, {"a", "b", "", ""}, {"new", "b", "", ""},
		{"old", "old.old", "", ""}, {"b", "b.old", "", "and b would replace it"},
		{"new", "", "new", "would replace each other"}, {"new", "", dir + "/new", "would"}, {"new", "", "new.old", "would"},
		{"new.old", "", "new", "would"}, {"new", "", "sub/new", ""}, {"/dev/null", "", "/dev/null", ""},
	} {
		var read, written []string
		if c.read != "" {
			read = []string{"none", c.read}
		}
		if c.written != "" {
			written = []string{"none2", c.written}
		}
		err := Clash(c.path, read, written)
		if c.want == "" {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.want, c)
		}
	}
}

// Files of a series sort by number and end as the path does, and none replaces another.
func TestSeries(t *testing.T) {
	for path, second := range map[string]string{"x.data": "x.000002.data", "a.b/series": "a.b/series.000002", ".data": ".000002.data"} {
		t.Chdir(t.TempDir())
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.Empty(t, Series(path))
		write(t, path, "before")
		require.NoError(t, os.Symlink("nowhere", Numbered(path, 1)))
		f, n, err := CreateNumbered(path, 0)
		require.NoError(t, err)
		require.NoError(t, errors.Join(f.Keep(), f.Discard()))
		require.Equal(t, 2, n)
		is(t, second, "")
		f, n, err = CreateNumbered(path, 10)
		require.NoError(t, err)
		require.NoError(t, f.Discard())
		require.Equal(t, 11, n)
		f, n, err = CreateNumbered(path, 2)
		require.NoError(t, err)
		require.NoError(t, f.Discard())
		require.Equal(t, 12, n)
		for _, other := range []string{Numbered(path, 3) + "4", Numbered(path, 0), Numbered(path, -3)} {
			write(t, other, "not of the series")
		}
		require.Equal(t, []int{1, 2, 11, 12}, Series(path))
	}
}

// Concurrent writers of one series get a file each.
func TestSeriesOfSeveral(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.data")
	const writers, each = 4, 100
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				f, _, err := CreateNumbered(path, 0)
				if assert.NoError(t, err) {
					assert.NoError(t, f.Discard())
				}
			}
		})
	}
	all.Wait()
	require.Len(t, Series(path), writers*each)
}
