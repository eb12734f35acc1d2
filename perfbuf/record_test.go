package perfbuf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// logged is what slog's text handler makes of a value.
func logged(v any) string {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key != "ev" {
			return slog.Attr{}
		}
		return a
	}})).Info("", "ev", v)
	return string(bytes.TrimSpace(b.Bytes()))
}

// Each kind of event, as it is printed and as its Record is logged.
func TestEventsInLogs(t *testing.T) {
	const at = uint64(3600 * time.Second)
	k := newFake(t, 1, Options{})
	n := uint64(k.fill(0, at))
	var lines []string
	show := func(ev Event) error {
		lines = append(lines, ev.String(), logged(ev.Record()))
		require.Equal(t, ev.String(), fmt.Sprint(ev))
		return nil
	}
	last := 0
	require.NoError(t, k.unordered().ForEach(func(ev Event) error { last++; return nil }))
	require.Equal(t, int(n), last)
	require.NoError(t, k.w[0].Output(at+uint64(time.Second)+5, ringtest.Payload(1, 12)))
	require.NoError(t, k.unordered().ForEach(show))
	k.w[0].PutHeader(ringtest.TypeSample, 0, 104)
	require.NoError(t, k.unordered().Flush())
	k.clock.Store(at)
	require.NoError(t, k.unordered().ForEach(show))
	after, damage := at+n-1, fmt.Sprintf("perfbuf: corrupt ring of CPU 10 at offset %d: header.size is 0; skipped 104 bytes (outputs of 65509 bytes or more do this: output less at once)", k.w[0].Head()-104)
	require.Equal(t, []string{
		fmt.Sprintf("lost cpu=10 time=3601.000000005s lost=1 after=3600.%09ds", n-1),
		fmt.Sprintf("ev.kind=lost ev.cpu=10 ev.time=3601000000005 ev.lost=1 ev.after=%d", after),
		"sample cpu=10 time=3601.000000005s len=12",
		"ev.kind=sample ev.cpu=10 ev.time=3601000000005 ev.len=12",
		fmt.Sprintf("corrupt cpu=10 time=3601.000000005s err=%q", damage),
		fmt.Sprintf("ev.kind=corrupt ev.cpu=10 ev.time=3601000000005 ev.err=%q", damage),
		"flushed time=1099.511627776s",
		"ev.kind=flushed ev.cpu=-1 ev.time=1099511627776",
	}, lines)
}

func TestLateEventsInLogs(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.stream()
	k.output(0, 2e9)
	ids(t, s)
	k.output(1, 1e9)
	var line, log string
	require.NoError(t, s.ForEach(func(ev Event) error { line, log = ev.String(), logged(ev.Record()); return nil }))
	require.Equal(t, "sample cpu=11 time=1.000000000s len=12 late", line)
	require.Equal(t, "ev.kind=sample ev.cpu=11 ev.time=1000000000 ev.len=12 ev.late=true", log)
}

// Events without a time, and the zero Event, can be printed too.
func TestZeroValuesInLogs(t *testing.T) {
	require.Equal(t, "none", Event{}.String())
	require.Equal(t, "ev.kind=none ev.cpu=0 ev.time=0", logged(Record{}))
	require.Equal(t, "ev.kind=none ev.cpu=0 ev.time=0", logged(Event{}.Record()))
	require.Equal(t, "ev.kind=sample ev.cpu=0 ev.time=0 ev.len=0", logged(Record{Kind: KindSample}))
	require.Equal(t, "ev.kind=corrupt ev.cpu=0 ev.time=0 ev.err=<nil>", logged(Record{Kind: KindCorrupt}))
	k := newFake(t, 1, Options{NoTime: true})
	k.fill(0, 1)
	ids(t, k.unordered())
	k.output(0, 2)
	var lines []string
	require.NoError(t, k.unordered().ForEach(func(ev Event) error { lines = append(lines, ev.String()); return nil }))
	require.Equal(t, []string{"lost cpu=10 lost=1", "sample cpu=10 len=12"}, lines)
}

// The payload stays out of logs, in JSON as well.
func TestPayloadsAreNotLogged(t *testing.T) {
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("", "ev", Record{Kind: KindSample, CPU: 3, Time: 1<<64 - 1, Data: []byte("secret")})
	require.NotContains(t, b.String(), "secret")
	var got struct{ Ev map[string]any }
	require.NoError(t, json.Unmarshal(b.Bytes(), &got))
	require.Equal(t, map[string]any{"kind": "sample", "cpu": 3.0, "time": float64(1<<64 - 1), "len": 6.0}, got.Ev)
}
