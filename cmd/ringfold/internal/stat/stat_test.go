package stat

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// parse returns the intervals, and the summary.
func parse(t *testing.T, out string) (intervals []counts, summary counts) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		strict := json.NewDecoder(strings.NewReader(line))
		strict.DisallowUnknownFields()
		if i < len(lines)-1 {
			intervals = append(intervals, counts{})
			require.NoError(t, strict.Decode(&intervals[i]), line)
			continue
		}
		last := map[string]counts{}
		require.NoError(t, strict.Decode(&last), line)
		require.Contains(t, last, "summary")
		summary = last["summary"]
	}
	return intervals, summary
}

// Every event is counted where it was output, in all intervals together too.
func TestCounts(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	const each, size = 500, 64
	all := uint64(each * len(cpus))
	for _, mode := range []string{"exact", "slack"} {
		r := clitest.Start(t, "reading the ", Command, "id", clitest.MapID(t, e.MapFD()), "--steal", "--json", "-i", "10ms", "--mode", mode, "-n", fmt.Sprint(all))
		for range 2 {
			for _, cpu := range cpus {
				e.Emit(cpu, each/2, size)
			}
			r.Out.Wait(t, `"events":[1-9]`) // an interval has some, before all have come
		}
		intervals, s := parse(t, r.Wait(t))
		require.Len(t, s.Maps, 1)
		require.Len(t, s.Maps[0].CPUs, len(cpus))
		for i, one := range s.Maps[0].CPUs {
			require.Equal(t, cpuCounts{cpus[i], each, one.Bytes, 0, 0}, one)
			require.GreaterOrEqual(t, one.Bytes, uint64(each*size))
		}
		require.Equal(t, all, s.Events)
		require.EqualValues(t, mode, s.Mode)
		require.Zero(t, s.Maps[0].Late)
		require.Positive(t, s.Delay.P50)
		require.LessOrEqual(t, s.Delay.P50, s.Delay.P99)
		require.LessOrEqual(t, s.Delay.P99, s.Delay.Max)
		require.NotEmpty(t, intervals)
		sum := uint64(0)
		for _, c := range intervals {
			sum += c.Events
		}
		require.LessOrEqual(t, sum, all)
	}
}

// The intervals have every event from the beginning, also those before the goroutine that prints runs.
func TestFirstInterval(t *testing.T) {
	k := perfbuftest.New(perfbuftest.Options{})
	r, err := k.Open(perfbuf.Options{})
	require.NoError(t, err)
	set := (&source.Flags{}).Own("events", r)
	defer set.Close()
	n := newCounter(set)
	require.NoError(t, k.Output(0, []byte("event")))
	stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	require.NoError(t, stream.ForEach(func(ev perfbuf.Event) error { return n.event(source.Event{Event: ev, From: set.Sources[0]}) }))
	require.ErrorIs(t, n.each(t.Context(), time.Millisecond, func(c *counts) error {
		require.EqualValues(t, 1, c.Events)
		return io.EOF
	}), io.EOF)
}

// What a full ring had no room for is counted.
func TestLost(t *testing.T) {
	e := kerneltest.Load(t)
	id := clitest.MapID(t, e.MapFD())
	status, out, stderr := clitest.Run(t, Command, "id", id, "--steal", "--json", "--ring-size", "4KiB", "--timeout", "1ms")
	require.Zero(t, status, stderr)
	_, s := parse(t, out)
	require.Zero(t, s.Events)
	r := clitest.Start(t, "reading the ", Command, "id", id, "--steal", "--json", "--ring-size", "4KiB")
	e.Emit(0, 2000, 256) // in programs that run so long that the ring is full
	for e.Emit(0, 1, 256); e.LastError(0) != nil; {
		e.Emit(0, 1, 256) // until one is written, which reports those before it
	}
	attempted, failed := e.Counts(0)
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGINT))
	_, s = parse(t, r.Wait(t))
	require.NotZero(t, failed)
	require.Equal(t, failed, s.Lost)
	require.Equal(t, attempted-failed, s.Events)
	require.Equal(t, s.Lost, s.Maps[0].CPUs[0].Lost)
}

// It ends with the command that it runs, and says how that has ended.
func TestCommand(t *testing.T) {
	e := kerneltest.Load(t)
	status, out, stderr := clitest.Run(t, Command, "id", clitest.MapID(t, e.MapFD()), "--steal", "--", "sh", "-c", "exit 3")
	require.Zero(t, status, stderr)
	require.Regexp(t, `(?m)^ +CPU +EVENTS +EVENTS/S +BYTES +LOST +MAP$`, out)
	require.Regexp(t, `(?m)^ +all +0 +0 +0 B +0 *$`, out)
	require.Regexp(t, `(?m)^events: \d+ wakeups, 0 late$`, out)
	require.Contains(t, out, "\nsh -c exit 3: exit status 3\n")
	require.Regexp(t, `\n\d+\.\d{3} s, exact\n$`, strings.TrimSuffix(out, "\n"))

	status, out, _ = clitest.Run(t, Command, "id", clitest.MapID(t, e.MapFD()), "--steal", "-o", "compact", "--", "true")
	require.Zero(t, status)
	require.Regexp(t, `^# [\d.]+ s 0 events 0 bytes 0 lost 0 late, command: exit status 0\n$`, out)
}

// Of a recording, the time is that which it has, and only what matches is counted.
func TestRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.data")
	clitest.Recording(t, path, perfdata.Options{}, time.Second, slices.Repeat([][]byte{[]byte("event")}, 101)...)
	status, out, stderr := clitest.Run(t, Command, path, "--filter", "cpu == 1", "--json")
	require.Zero(t, status, stderr)
	_, s := parse(t, out)
	require.EqualValues(t, 50, s.Events)
	require.EqualValues(t, 51, s.Filtered)
	require.Nil(t, s.Delay)
	require.InDelta(t, 98, s.Elapsed, 0.01, "of what matches")
	require.Equal(t, s.Elapsed, s.Interval)

	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	status, out, stderr = clitest.Run(t, Command, path)
	require.Equal(t, 1, status)
	require.Regexp(t, ` all +[1-9]`, out)
	require.Contains(t, stderr, "cut")
}

func TestMisuse(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
		"what":         "name a map by id N",
		"-i 1ms":       "10ms at least",
		"a.data -i 1s": "--interval is for maps",
		"id 1 --":      "missing behind --",
		"-n none":      "invalid",
	})
}

func TestJSONKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/tool.md")
	require.NoError(t, err)
	_, part, found := strings.Cut(string(page), "\n## stat\n")
	require.True(t, found)
	var check func(reflect.Type)
	check = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			check(typ.Elem())
		case reflect.Struct:
			for _, field := range reflect.VisibleFields(typ) {
				if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); field.IsExported() {
					require.Contains(t, part, "`"+key+"`")
					check(field.Type)
				}
			}
		}
	}
	check(reflect.TypeFor[counts]())
}

func TestDelay(t *testing.T) {
	var h quantile.Histogram
	require.Nil(t, delayOf(&h))
	h.Add(1_000_000_000)
	require.Equal(t, &delay{1, 1, 1}, delayOf(&h))
}

// Ctrl-C ends it, and the command, with the summary.
func TestInterrupt(t *testing.T) {
	e := kerneltest.Load(t)
	status, out, stderr := clitest.Run(t, Command, "id", clitest.MapID(t, e.MapFD()), "--steal", "-i", "1h", "--json", "--", "sh", "-c", "kill -INT $PPID; exec sleep 1h")
	require.Zero(t, status, stderr)
	_, s := parse(t, out)
	require.Equal(t, "signal: terminated", s.Command.Status)
	require.Equal(t, 128+int(syscall.SIGTERM), s.Command.Exit, "as in a shell")
}
