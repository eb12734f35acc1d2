package record

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// fly starts a flight recorder.
func fly(t *testing.T, e *kerneltest.Emitter, args ...string) *clitest.Running {
	t.Helper()
	args = append([]string{"--steal", "id", id(t, e.MapFD()), "--flight", "1h"}, args...)
	return clitest.Start(t, "keeping the last", Command, args...)
}

// A signal writes what was before it, and ends the command.
func TestSignal(t *testing.T) {
	e := kerneltest.Load(t)
	file := filepath.Join(t.TempDir(), "x.data")
	r := fly(t, e, "-w", file, "--filter", "size != 44", "--json")
	for _, size := range []int{36, 60, 44, 84} {
		e.Emit(0, 1, size)
	}
	r.Signal(t, syscall.SIGUSR1)
	r.Wait(t)
	all, _ := lines(t, r)
	require.Len(t, all, 1)
	require.Equal(t, "signal", all[0].Trigger)
	require.EqualValues(t, 3, all[0].Events)
	require.Equal(t, []int{36, 60, 84}, whole(t, file))
}

// An event that matches writes what was before and after it; the end writes what was since.
func TestTrigger(t *testing.T) {
	e := kerneltest.Load(t)
	dir := t.TempDir()
	r := fly(t, e, "--trigger", "size > 90 && cpu == 0", "--after", "1ms", "--snapshot-dir", dir, "--json")
	e.Emit(0, 2, 36)
	e.Emit(1, 1, 100) // on the other CPU
	e.Emit(0, 1, 100)
	for files := 0; files == 0; {
		all, err := os.ReadDir(dir)
		require.NoError(t, err)
		files = len(all)
	}
	e.Emit(0, 1, 100)
	r.Interrupt(t)
	all, _ := lines(t, r)
	require.Len(t, all, 2)
	require.Equal(t, "event", all[0].Trigger)
	require.Equal(t, []int{36, 36, 100, 100}, whole(t, all[0].File)[:4])
	require.Equal(t, "end", all[1].Trigger)
	require.Len(t, whole(t, all[1].File), 5)
}

// However a command ends whose map another reader has just taken, its snapshot says until when it is complete, and the command fails.
func TestFlightDisplaced(t *testing.T) {
	for _, end := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGINT} {
		t.Run(end.String(), func(t *testing.T) {
			e := kerneltest.Load(t)
			file := filepath.Join(t.TempDir(), "x.data")
			r := fly(t, e, "-w", file, "--json")
			e.Emit(0, 3, 36)
			other, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
			require.NoError(t, err)
			defer other.Close()
			taken := perfbuf.Now()
			r.Signal(t, end)
			require.Equal(t, 1, r.Status())
			require.Contains(t, r.Notes.String(), "another reader has taken the map")
			all, _ := lines(t, r)
			require.Len(t, all, 1)
			require.Less(t, all[0].Until, taken)
			require.Equal(t, []int{36, 36, 36}, whole(t, file))
		})
	}
}

// When another reader has taken a CPU, events of the others still trigger, each once.
func TestTriggerDisplaced(t *testing.T) {
	e := kerneltest.Load(t)
	dir := t.TempDir()
	r := fly(t, e, "--flight", "1ms", "--trigger", "size > 90", "--snapshot-dir", dir, "--json", "--", "sleep", "1h")
	other, err := perfbuf.Open(e.MapFD(), perfbuf.Options{CPUs: []int{1}})
	require.NoError(t, err)
	defer other.Close()
	r.Notes.Wait(t, "another reader has taken the map")
	for n := 1; n <= 3; n++ {
		e.Emit(0, 1, 100)
		for strings.Count(r.Out.String(), `"trigger":"event"`) < n {
		}
		for written := perfbuf.Now(); perfbuf.Now() <= written+uint64(time.Millisecond); { // until then, nothing triggers
		}
	}
	r.Signal(t, syscall.SIGINT)
	require.Equal(t, 1, r.Status())
	all, _ := lines(t, r)
	require.Len(t, all, 4, "with that at the end")
}

// After a snapshot, nothing triggers until there can be one without the same events.
func TestTooSoon(t *testing.T) {
	w := watch{looked: 1000}
	require.False(t, w.counts(1000))
	require.True(t, w.counts(1001))
	w.triggered(1100, 50)
	require.False(t, w.counts(1150))
	require.True(t, w.counts(1151))
}

// limitFiles has this process write no more than 100 KiB to a file until the limit is lifted.
func limitFiles(t *testing.T) (lift func()) {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	lift = func() {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
		signal.Reset(syscall.SIGXFSZ)
	}
	t.Cleanup(lift)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100 << 10, Max: limit.Max}))
	return lift
}

// A snapshot that cannot be written is kept until it can be, and recording goes on.
func TestSnapshotLater(t *testing.T) {
	e := kerneltest.Load(t)
	for _, single := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "dir")
		require.NoError(t, os.Mkdir(dir, 0o700))
		args := []string{"--filter", "size == 44", "--json"}
		if single {
			args = append(args, "-w", filepath.Join(dir, "x.data"))
		} else {
			args = append(args, "--snapshot-dir", dir)
		}
		r := fly(t, e, args...)
		many, mend := 5000, limitFiles(t) // amid the events, as on a full disk
		if !single {
			mend()
			many = 2
			require.NoError(t, os.Remove(dir))
			mend = func() { require.NoError(t, os.Mkdir(dir, 0o700)) }
		}
		e.Emit(0, 1, 36)
		e.Emit(0, many, 44)
		r.Signal(t, syscall.SIGUSR1)
		r.Notes.Wait(t, "(no such file or directory|file too large): keeping the snapshot .signal. in memory")
		e.Emit(0, 1, 44)
		if !single { // so many that not all are kept
			for !strings.Contains(r.Notes.String(), "left out a snapshot") {
				r.Signal(t, syscall.SIGUSR1)
			}
		}
		mend()
		r.Notes.Wait(t, "x?.data is written now")
		if single {
			require.EqualValues(t, 1, summed(t, r).Filtered, "counted once")
		} else {
			r.Signal(t, syscall.SIGINT)
			require.Equal(t, 1, r.Status())
			require.Contains(t, r.Notes.String(), "snapshots were left out")
		}
		all, _ := lines(t, r)
		require.Equal(t, slices.Repeat([]int{44}, many), whole(t, all[0].File))
		if single {
			require.Len(t, all, 1)
			continue
		}
		require.Greater(t, len(all), mostHeld)
		require.Equal(t, []int{44, 44, 44}, whole(t, all[len(all)-1].File))
	}
}

// At the end there is no other time to write a snapshot.
func TestSnapshotLost(t *testing.T) {
	e := kerneltest.Load(t)
	dir := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.Mkdir(dir, 0o700))
	r := fly(t, e, "-w", filepath.Join(dir, "x.data"))
	require.NoError(t, os.Remove(dir))
	r.Signal(t, syscall.SIGINT)
	require.Equal(t, 1, r.Status())
	require.Contains(t, r.Notes.String(), "1 snapshots are lost: perfdata: open "+dir)
	require.Contains(t, r.Out.String(), "0 snapshots in ")
	require.NotContains(t, r.Notes.String(), "in memory")
}

func TestLarger(t *testing.T) {
	for _, c := range []struct {
		size        cli.Size
		age, wanted time.Duration
		want        string
	}{
		{1 << 20, 163 * time.Millisecond, 10 * time.Second, "--ring-size 64MiB would hold 10s, "},
		{1 << 20, time.Second, 2 * time.Second, "--ring-size 2MiB would hold 2s, "},
		{1<<20 + 1, time.Second, 2001 * time.Millisecond, "--ring-size 4MiB would hold 2.001s, "},
		{1900 << 10, time.Second, 1500 * time.Millisecond, "--ring-size 2MiB would hold 1.5s, "},
		{1 << 20, 163_456_789, time.Hour, "--ring-size 1GiB would hold 2m47.38s, "},
		{1 << 20, time.Second, time.Hour, "--ring-size 1GiB would hold 17m4s, "},
		{1 << 20, 0, time.Second, "--ring-size 1GiB would hold 0s, "},
	} {
		require.Contains(t, larger(c.size, c.age, c.wanted), c.want)
	}
}

// What a terminal gets, and how many snapshots are kept.
func TestSnapshots(t *testing.T) {
	e := kerneltest.Load(t)
	dir := t.TempDir()
	r := fly(t, e, "--trigger", "kind == sample", "-n", "1", "--snapshot-dir", dir)
	e.Emit(0, 1, 40)
	r.Wait(t)
	require.Contains(t, r.Out.String(), " s, 0 lost (event)\n1 snapshots in ")

	r = fly(t, e, "--snapshot-dir", dir, "--max-files", "1")
	for n := 1; n <= 3; n++ {
		r.Signal(t, syscall.SIGUSR1)
		for strings.Count(r.Out.String(), "(signal)") < n {
		}
		if n == 1 { // somebody removes what --max-files would remove
			require.NoError(t, os.Remove(regexp.MustCompile(`(?m)^/\S+\.data`).FindString(r.Out.String())))
		}
	}
	r.Interrupt(t)
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, all, 2, "one of each run")
	require.NotContains(t, r.Notes.String(), "--max-files:")
}

// A ring buffer that programs overwrite is recorded by its events' times, also while others have it.
func TestFlightOfARingBuffer(t *testing.T) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{Overwrite: true})
	for _, trigger := range [][]string{nil, {"--trigger", "size == 44"}} {
		file := filepath.Join(t.TempDir(), "x.data")
		args := []string{"id", fmt.Sprintf("%s,time=%d,cpu=%d", id(t, e.MapFD()), kerneltest.RingTimeAt, kerneltest.RingCPUAt), "--flight", "1h", "-w", file}
		r := clitest.Start(t, "keeping the last", Command, append(args, trigger...)...)
		for _, size := range []int{36, 60, 44} {
			e.Emitter.Emit(1, 1, size)
		}
		if trigger == nil {
			r.Signal(t, syscall.SIGUSR1)
		}
		r.Wait(t)
		require.Equal(t, []int{36, 60, 44}, whole(t, file)[:3])
	}
	status, _, said := run(t, "--flight", "1s", "id", id(t, e.MapFD()))
	require.NotZero(t, status)
	require.Contains(t, said, "time=OFFSET")
}

func TestFlightRefuses(t *testing.T) {
	e, rings := kerneltest.Load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	for want, args := range map[string][]string{
		": choose one":                         {"id", id(t, e.MapFD()), "id", id(t, rings.MapFD())},
		"which the kernel never overwrites":    {"id", id(t, rings.MapFD())},
		"--trigger: cpu, size, time, timestam": {"id", id(t, e.MapFD()), "--trigger", "ret < 0"},
		"goes by the kernel's times":           {"id", id(t, e.MapFD()) + ",time=8", "--trigger", "cpu == 0"},
		"no such file or directory":            {"id", id(t, e.MapFD()), "--timeout", "1ms", "-w", "/nonexistent/x.data"},
	} {
		status, _, said := run(t, append([]string{"--flight", "1s", "--steal"}, args...)...)
		require.NotZero(t, status, args)
		require.Contains(t, said, want)
	}
}
