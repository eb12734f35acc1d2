package spool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(t *testing.T, path string) *Spool {
	t.Helper()
	s, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// all is what a spool holds.
func all(t *testing.T, s *Spool) (data []string, last uint64) {
	t.Helper()
	for {
		e, ok, err := s.Next(last)
		require.NoError(t, err)
		if !ok {
			return data, last
		}
		require.Greater(t, e.Position, last)
		data, last = append(data, string(e.Data)), e.Position
	}
}

func TestAppendNextDelete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	_, err := Open(filepath.Join(path, "spool"))
	require.ErrorIs(t, err, os.ErrNotExist)
	s := open(t, path)
	_, err = Open(path)
	require.ErrorContains(t, err, path+" is in use by another agent")
	require.NoError(t, s.Append([]byte("one"), []byte("two")))
	require.NoError(t, s.Append(nil))
	require.Equal(t, int64(6), s.Bytes())
	got, last := all(t, s)
	require.Equal(t, []string{"one", "two", ""}, got)
	e, _, err := s.Next(0)
	require.NoError(t, err)
	require.True(t, e.Fresh)
	for range 2 {
		require.NoError(t, s.Delete(e.Position))
		require.Equal(t, int64(3), s.Bytes())
	}
	require.NoError(t, s.Close())

	s = open(t, path)
	require.Equal(t, int64(3), s.Bytes())
	require.NoError(t, s.Delete(last))
	require.NoError(t, s.Append([]byte("four")))
	_, again := all(t, s)
	require.Equal(t, last+1, again, "positions are not used twice, and have no holes")
}

// Each time that it is opened, a log begins. Batches of before stay in theirs, and an older copy
// has others than what it was copied from.
func TestLogs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := open(t, path)
	log := func(position uint64) Log {
		e, ok, err := s.Next(position - 1)
		require.NoError(t, err)
		require.True(t, ok)
		return e.Log
	}
	require.NoError(t, s.Append([]byte("1"), []byte("2")))
	first := log(2)
	require.Equal(t, Log{ID: first.ID, First: 1}, first)
	s.Close()
	copied, err := os.ReadFile(path)
	require.NoError(t, err)

	var ids []string
	for range 2 { // the first time nothing is appended
		s = open(t, path)
		ids = append(ids, s.logs[len(s.logs)-1].ID)
		require.Equal(t, first, log(1))
		e, _, err := s.Next(0)
		require.NoError(t, err)
		require.False(t, e.Fresh)
		if len(ids) < 2 {
			s.Close()
		}
	}
	require.NotEqual(t, ids[0], ids[1])
	require.NoError(t, s.Append([]byte("3"), []byte("4"), []byte("5")))
	second := log(3)
	require.Equal(t, Log{ID: ids[1], First: 3, Prior: first.ID}, second)

	// From 5 on it is another one, then from 4 on.
	third, err := s.Renew(5)
	require.NoError(t, err)
	require.Equal(t, Log{ID: third.ID, First: 5, Prior: second.ID}, third)
	require.Equal(t, third, log(5))
	fourth, err := s.Renew(4)
	require.NoError(t, err)
	require.Equal(t, Log{ID: fourth.ID, First: 4, Prior: second.ID}, fourth)
	require.NoError(t, s.Delete(2))
	s.Close()
	s = open(t, path)
	require.Equal(t, []Log{second, fourth, fourth}, []Log{log(3), log(4), log(5)})
	require.Len(t, s.logs, 3, "of what is gone none is kept")
	_, err = s.Renew(4)
	require.NoError(t, err)
	s.Close()
	_, err = s.Renew(4)
	require.Error(t, err)

	require.NoError(t, os.WriteFile(path, copied, 0o600))
	s = open(t, path)
	require.NoError(t, s.Append([]byte("other 3")))
	require.Equal(t, first, log(1))
	require.Equal(t, Log{ID: log(3).ID, First: 3, Prior: first.ID}, log(3))
	require.NotEqual(t, ids[1], log(3).ID)
}

// A database of another program is not touched. One that holds nothing is what a crash leaves when
// a spool is made.
func TestForeign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	open(t, path).Close()

	require.NoError(t, os.Remove(path))
	db, err = bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("batches"))
		return err
	}))
	require.NoError(t, db.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = Open(path)
	require.EqualError(t, err, path+" is a database of another program, and no spool: name another file by spool=FILE")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after))
}

// Damage is found when the spool is opened, wherever it is, and nothing in the file is changed.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := open(t, path)
	for i := range uint64(50) {
		require.NoError(t, s.Append(bytes.Repeat([]byte(fmt.Sprintf("%03d", i)), 1000)))
	}
	require.NoError(t, s.Close())
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	flip := bytes.Index(good, []byte("024024024")) + 1000

	damaged := map[string][]byte{
		"text":      []byte("this is not a spool\n"),
		"zeros":     make([]byte, len(good)),
		"cut":       good[:len(good)/2/4096*4096],
		"cut short": good[:5000],
		"a bit":     append(append(append([]byte(nil), good[:flip]...), good[flip]^1), good[flip+1:]...),
		"two pages": append(make([]byte, 8192), good[8192:]...),
	}
	// Whole pages of rubbish, everywhere but in the two first.
	for at := 8192; at+4096 <= len(good); at += 16 << 10 {
		b := append([]byte(nil), good...)
		copy(b[at:at+4096], bytes.Repeat([]byte{0xA5}, 4096))
		damaged[fmt.Sprint("rubbish at ", at)] = b
	}
	for name, b := range damaged {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		s, err := Open(path)
		if err == nil { // the damaged page was a free one
			got, _ := all(t, s)
			require.Len(t, got, 50, name)
			s.Close()
			require.Contains(t, name, "rubbish")
			continue
		}
		require.ErrorContains(t, err, path+" is damaged, or no spool", name)
		require.ErrorContains(t, err, "move it out of the way")
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(b, now), name)
	}
}

// However long it is used, the file takes a small multiple of what it has held at once.
func TestFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := open(t, path)
	data := bytes.Repeat([]byte("x"), 100_000)
	for i := range uint64(100) {
		require.NoError(t, s.Append(data))
		if i >= 10 {
			require.NoError(t, s.Delete(i+1-10))
		}
	}
	require.Equal(t, int64(1_000_000), s.Bytes())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(10_000_000))
}

// BenchmarkSpool is a batch's way over the disk: appended, durably, with as many others as have
// come together, read and deleted.
func BenchmarkSpool(b *testing.B) {
	for _, together := range []int{1, 16} {
		b.Run(fmt.Sprint(together, " together"), func(b *testing.B) {
			s, err := Open(filepath.Join(b.TempDir(), "spool"))
			require.NoError(b, err)
			defer s.Close()
			data := make([]byte, 42<<10) // of 1000 events
			next := uint64(1)
			for b.Loop() {
				require.NoError(b, s.Append(slices.Repeat([][]byte{data}, together)...))
				next += uint64(together)
				for range together {
					_, _, err := s.Next(next - uint64(together) - 1)
					require.NoError(b, err)
				}
				require.NoError(b, s.Delete(next-1))
			}
			b.ReportMetric(float64(b.N*together)/b.Elapsed().Seconds(), "batches/s")
		})
	}
}
