package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// recording makes a recording of n numbered events of each name. The first name's are at start and every
// 10 µs from then on, the next one's 5 µs later.
func recording(t *testing.T, path string, n int, start time.Duration, names ...string) {
	t.Helper()
	var o perfdata.Options
	var kernels []*perfbuftest.Kernel
	var readers []*perfbuf.Reader
	for i, name := range names {
		k := perfbuftest.New(perfbuftest.Options{})
		k.Advance(start + time.Duration(i)*5*time.Microsecond)
		r, err := k.Open(perfbuf.Options{Name: name})
		require.NoError(t, err)
		defer r.Close()
		readers = append(readers, r)
		o.Events, kernels = append(o.Events, perfdata.EventInfo{Name: name}), append(kernels, k)
	}
	rec, err := perfdata.Create(path, o)
	require.NoError(t, err)
	for i := range n {
		for j, e := range o.Events {
			require.NoError(t, kernels[j].Output(0, fmt.Appendf(nil, "%-12s", fmt.Sprint(e.Name, i)))) // without padding
			kernels[j].Advance(10 * time.Microsecond)
			stream, err := readers[j].Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
			require.NoError(t, err)
			require.NoError(t, stream.ForEach(rec.Record))
			require.NoError(t, stream.Close())
		}
	}
	require.NoError(t, rec.Close())
}

// open opens what a command line names.
func open(t *testing.T, ctx context.Context, args ...string) (*Set, Stream, error) {
	t.Helper()
	var f Flags
	cmd := &cobra.Command{Use: "test", Args: f.Args, RunE: func(*cobra.Command, []string) error { return nil }}
	f.Which(cmd.Flags())
	f.What(cmd.Flags())
	cmd.SetArgs(args)
	require.NoError(t, cmd.ExecuteContext(ctx))
	set, err := f.Choose()
	if err != nil {
		return nil, nil, err
	}
	in, err := set.Open(perfbuf.Options{})
	return set, in, err
}

// Recordings are one stream, in order of time, of all their events or of those with one name.
func TestSeveralRecordings(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.data"), filepath.Join(dir, "b.data")
	recording(t, a, 100, 0, "exec", "exit")
	recording(t, b, 50, 3*time.Microsecond, "exec")
	for args, want := range map[string]struct {
		events int
		first  []string
	}{
		"":               {250, []string{a + " (event exec) exec0", "b.data exec0", "exit exit0", a + " (event exec) exec1", "b.data exec1", "exit exit1"}},
		"--event=exec":   {150, []string{"a.data exec0", "b.data exec0", "a.data exec1", "b.data exec1", "a.data exec2"}},
		"--since=500us":  {101, []string{"exit exit49", a + " (event exec) exec50", "exit exit50"}}, // before the last of all
		"--wall-clock":   {250, nil},
		"--count=3":      {3, nil},
		"--timeout=100s": {250, nil},
	} {
		all := []string{a, b}
		if args != "" {
			all = append(all, args)
		}
		set, in, err := open(t, t.Context(), all...)
		require.NoError(t, err)
		var got []string
		before := uint64(0)
		require.NoError(t, set.Run(t.Context(), in, func(ev Event) error {
			require.LessOrEqual(t, before, ev.Time())
			before = ev.Time()
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s", ev.From.Label, ev.Bytes())))
			return nil
		}, func() error { return nil }))
		set.Close()
		require.Len(t, got, want.events, args)
		for i, one := range want.first {
			require.Equal(t, one, got[i], args)
		}
	}
	link := filepath.Join(dir, "link.data")
	require.NoError(t, os.Link(a, link))
	_, _, err := open(t, t.Context(), a, link)
	require.ErrorContains(t, err, "are one recording")
	recording(t, link+"2", 1, 0, strings.Split("abcdefghi", "")...)
	_, _, err = open(t, t.Context(), "file", link+"2")
	require.ErrorContains(t, err, "has 9 events, more than 8: name one by --event")
	_, _, err = open(t, t.Context(), a, b, "--event", "exit")
	require.ErrorContains(t, err, b+" has none of this name, but exec")
}

// A signal ends the tool while it opens a recording, and amid what the rings hold of one.
func TestStopAmidRecording(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.data")
	recording(t, path, 1000, 0, "exec")
	set, in, err := open(t, t.Context(), path)
	require.NoError(t, err)
	defer set.Close()
	ctx, signal := context.WithCancel(t.Context())
	n := 0
	require.NoError(t, set.Run(ctx, in, func(Event) error { n++; signal(); return nil }, func() error { return nil }))
	require.Equal(t, 1, n)

	slow := filepath.Join(dir, "slow.data")
	require.NoError(t, syscall.Mkfifo(slow, 0o600)) // opening it blocks
	_, _, err = open(t, ctx, slow)
	require.ErrorContains(t, err, "stopped while opening "+slow)
	w, err := os.OpenFile(slow, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, w.Close())
}
