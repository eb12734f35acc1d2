package spool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(t *testing.T, path, boot string) *Spool {
	t.Helper()
	s, err := Open(path, boot)
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
	s := open(t, path, "boot")
	require.Equal(t, uint64(1), s.Log().Next)
	require.NotEmpty(t, s.Log().LogID)
	require.NoError(t, s.Append(Batch{1, 10, false, "first", []byte("one")}, Batch{2, 20, false, "", []byte("two")}))
	require.NoError(t, s.Append(Batch{3, 30, true, "", nil}))
	require.Equal(t, int64(6), s.Bytes())
	require.Error(t, s.Append(Batch{3, 30, true, "", nil}), "not the next one")
	require.Error(t, s.Append(Batch{4, 30, false, "", []byte("x")}, Batch{6, 30, false, "", nil}), "a hole")
	got, last := all(t, s)
	require.Equal(t, []string{"one", "two", ""}, got, "all or nothing")

	e, _, err := s.Next(0)
	require.NoError(t, err)
	require.Equal(t, "first", e.ID)
	n, err := s.Delete(e.Position)
	require.NoError(t, err)
	require.Equal(t, int64(3), n)
	require.Equal(t, int64(3), s.Bytes())
	n, err = s.Delete(e.Position)
	require.NoError(t, err)
	require.Zero(t, n)

	l := s.Log()
	require.Equal(t, Log{BootID: "boot", LogID: l.LogID, Next: 4, Watermark: 30, Ended: true}, l)
	require.NoError(t, s.Close())
	s = open(t, path, "boot")
	require.Equal(t, l, s.Log(), "the same log goes on")
	require.Equal(t, int64(3), s.Bytes())
	_, err = s.Delete(last)
	require.NoError(t, err)
	require.NoError(t, s.Append(Batch{4, 40, false, "", []byte("four")}))
	_, again := all(t, s)
	require.Greater(t, again, last, "positions are not used twice")
}

// The host's next boot: its batches come behind those that are still there.
func TestAnotherBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := open(t, path, "one")
	require.NoError(t, s.Append(Batch{1, 10, false, "", []byte("a")}))
	first := s.Log().LogID
	s.Close()
	s = open(t, path, "two")
	require.NotEqual(t, first, s.Log().LogID)
	require.Equal(t, Log{BootID: "two", LogID: s.Log().LogID, Next: 1}, s.Log())
	require.NoError(t, s.Append(Batch{1, 5, false, "", []byte("b")}))
	got, _ := all(t, s)
	require.Equal(t, []string{"a", "b"}, got)
}

func TestInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := open(t, path, "boot")
	_, err := Open(path, "boot")
	require.ErrorContains(t, err, path+" is in use by another agent")
	s.Close()
	open(t, path, "boot")
}

func TestNoDirectory(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "none", "spool"), "boot")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Damage is found when the spool is opened, wherever it is, and nothing in the file is changed.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s := open(t, path, "boot")
	for i := range uint64(50) {
		require.NoError(t, s.Append(Batch{i + 1, i, false, "", bytes.Repeat([]byte(fmt.Sprintf("%03d", i)), 1000)}))
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
		s, err := Open(path, "boot")
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
	s := open(t, path, "boot")
	data := bytes.Repeat([]byte("x"), 100_000)
	for i := range uint64(100) {
		require.NoError(t, s.Append(Batch{i + 1, i, false, "", data}))
		if i >= 10 {
			_, err := s.Delete(i + 1 - 10)
			require.NoError(t, err)
		}
	}
	require.Equal(t, int64(1_000_000), s.Bytes())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(10_000_000))
}

// BenchmarkSpool is a batch's way over the disk: appended, durably, with as many others as have come together, read and deleted.
func BenchmarkSpool(b *testing.B) {
	for _, together := range []int{1, 16} {
		b.Run(fmt.Sprint(together, " together"), func(b *testing.B) {
			s, err := Open(filepath.Join(b.TempDir(), "spool"), "boot")
			require.NoError(b, err)
			defer s.Close()
			data := make([]byte, 42<<10) // of 1000 events
			next := uint64(1)
			for b.Loop() {
				var batches []Batch
				for range together {
					batches = append(batches, Batch{Sequence: next, ID: "host/boot/log/1", Data: data})
					next++
				}
				require.NoError(b, s.Append(batches...))
				for range together {
					_, _, err := s.Next(next - uint64(together) - 1)
					require.NoError(b, err)
				}
				_, err := s.Delete(next - 1)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.N*together)/b.Elapsed().Seconds(), "batches/s")
		})
	}
}
