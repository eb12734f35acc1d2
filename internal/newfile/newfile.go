// Package newfile makes files that replace others: recordings, snapshots, traces.
//
// In a directory that others may write to, such as /tmp, somebody can prepare the name: as a link
// to a file of the user's, or as a file that somebody else owns and reads. So a [File] is always
// new, with mode 0600, under an unpredictable name. [File.Keep] gives it the requested name. A file
// of that name becomes name.old, as with perf record.
package newfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// File is a new file. Until Keep, its name is that of the path with .part and a number behind it.
type File struct {
	*os.File
	path string // that it is to have; empty if it has it
}

// Create makes a file next to path, for Keep to give it that name. It opens the device or open file
// that a path such as /dev/null or /dev/stdout names as it is. Create refuses to replace anything
// but a regular file or a symbolic link. Errors name the path.
func Create(path string) (*File, error) {
	if Special(path) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		return named(f, "", err)
	}
	switch st, err := os.Lstat(path); {
	case err == nil && st.IsDir():
		return nil, fmt.Errorf("%s is a directory: name a file in it", path)
	case err == nil && st.Mode()&^os.ModeSymlink&os.ModeType != 0:
		return nil, fmt.Errorf("%s is not a regular file: choose another name, or write to it as a stream (stdout, perfdata.NewRecorder)", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part*") // O_EXCL, 0600
	var failed *fs.PathError
	if errors.As(err, &failed) {
		failed.Path = path
	}
	return named(f, path, err)
}

func named(f *os.File, path string, err error) (*File, error) {
	if err != nil {
		return nil, err
	}
	return &File{f, path}, nil
}

// Special reports whether a path names a device, or an open file such as /dev/stdout. Only links in
// the system's own directories count: others may be anybody's.
func Special(path string) bool {
	st, err := os.Lstat(path)
	if err != nil {
		return false
	}
	if st.Mode()&os.ModeSymlink == 0 {
		return st.Mode()&os.ModeCharDevice != 0
	}
	path, err = filepath.Abs(path)
	dir := filepath.Dir(path)
	return err == nil && (dir == "/dev" || dir == "/dev/fd" || strings.HasPrefix(dir, "/proc/"))
}

// Keep gives the file its name. A file of that name becomes name.old, unless it is empty; Keep
// removes an older name.old. After an error, the file still has its previous name.
func (f *File) Keep() error {
	if f.path == "" {
		return nil
	}
	st, err := os.Lstat(f.path)
	if err == nil && (st.Size() > 0 || !st.Mode().IsRegular()) {
		err = os.Rename(f.path, old(f.path))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(f.Name(), f.path)
	}
	if err == nil {
		f.path = ""
	}
	return err
}

// Discard closes the file, and removes it unless Keep was called.
func (f *File) Discard() error {
	err := f.Close()
	if f.path != "" {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// Check reports why a file cannot be made at a path, or has no room. It leaves nothing there.
func Check(path string) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	if f.path != "" {
		_, err = f.Write(make([]byte, 4096))
	}
	return errors.Join(err, f.Discard())
}

// Clash reports why a path must not be written while others are read and written: the write would
// replace one of them, under any name or hard link, or make it the old one.
func Clash(path string, read, written []string) error {
	for _, other := range read {
		if Same(path, other) {
			return fmt.Errorf("%s is read: write to another file", other)
		}
		if _, err := os.Lstat(path); err == nil && Same(old(path), other) {
			return fmt.Errorf("%s is read, and %s would replace it: write to another file", other, path)
		}
	}
	for _, other := range written {
		if Same(path, other) || Same(old(path), other) || Same(path, old(other)) {
			return fmt.Errorf("%s and %s are written to, and would replace each other: write to different files", other, path)
		}
	}
	return nil
}

func old(path string) string { return path + ".old" }

// Same reports whether two paths mean one file, or will once it exists. Devices may have several
// writers.
func Same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil && os.SameFile(x, y) {
		return x.Mode()&os.ModeCharDevice == 0
	}
	x, errX = os.Stat(filepath.Dir(a))
	y, errY = os.Stat(filepath.Dir(b))
	return errX == nil && errY == nil && os.SameFile(x, y) && filepath.Base(a) == filepath.Base(b)
}

// Numbered is the name of a file in a series: events.000001.data of events.data.
func Numbered(path string, n int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%06d%s", strings.TrimSuffix(path, ext), n, ext)
}

// Series returns the numbers of the files of a series that there are, in order.
func Series(path string) (numbers []int) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	base := filepath.Base(path)
	ext := filepath.Ext(base)
	for _, e := range entries {
		middle, ok := strings.CutPrefix(e.Name(), strings.TrimSuffix(base, ext)+".")
		if n, err := strconv.Atoi(strings.TrimSuffix(middle, ext)); ok && err == nil && n > 0 && Numbered(base, n) == e.Name() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// CreateNumbered makes a file of a series, numbered above last and all existing files. It has its
// name at once, because it replaces nothing.
func CreateNumbered(path string, last int) (_ *File, n int, err error) {
	if numbers := Series(path); len(numbers) > 0 {
		last = max(last, numbers[len(numbers)-1])
	}
	for n = last + 1; ; n++ {
		f, err := os.OpenFile(Numbered(path, n), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			made, err := named(f, "", err)
			return made, n, err
		}
	}
}
