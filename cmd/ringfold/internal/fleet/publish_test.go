package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
	"github.com/stretchr/testify/require"
)

// streamOf makes the stream, and says how to ask for it.
func streamOf(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Hour))
	require.NoError(t, err)
	require.NoError(t, ensure(t.Context(), js, "EVENTS", SinkOptions{MaxAge: time.Hour, MaxBytes: 1 << 30, Replicas: 1, Note: func(string) {}}))
	return js
}

// publishAll publishes what a spool has, and closes it.
func publishAll(t *testing.T, nc *nats.Conn, sp *spool.Spool) *publisher {
	t.Helper()
	o := SinkOptions{AckWait: time.Hour, Note: func(string) {}}
	js, err := newJetStream(nc, o)
	require.NoError(t, err)
	nothing := make(chan struct{})
	close(nothing)
	p := &publisher{SinkOptions: o, js: js, stream: "EVENTS", spool: sp, fresh: nothing}
	require.NoError(t, p.run(t.Context()))
	require.Zero(t, sp.Bytes())
	require.NoError(t, sp.Close())
	return p
}

// fill makes a spool of a head and n messages, whose boots are numbers. It has nothing published.
func fill(t *testing.T, path string, n int) *spool.Spool {
	t.Helper()
	sp, err := spool.Open(path)
	require.NoError(t, err)
	for i := range n + 1 {
		m := msg("h", 0, float64(i), float64(i)-0.5)
		if m.place, m.Boot, m.Since = (place{}), fmt.Sprint(i), uint64(max(0, i-1))*1e9; i == 0 {
			m.Head, m.data = true, head("events")
		}
		require.NoError(t, sp.Append(m.encode()))
	}
	return sp
}

// A spool that was published already is published again, as after a crash: the stream has it once.
func TestPublishedTwice(t *testing.T) {
	s := start(t)
	nc := connect(t, s.URL())
	streamOf(t, nc)
	path := filepath.Join(t.TempDir(), "spool")
	require.NoError(t, fill(t, path, 40).Close())
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, os.WriteFile(path, file, 0o600))
		sp, err := spool.Open(path)
		require.NoError(t, err)
		require.Equal(t, uint64(41), publishAll(t, nc, sp).acknowledged)
	}
	require.Len(t, stored(t, s.URL()), 41)
}

// A copy of a host that runs on elsewhere, as of a virtual machine, publishes other messages under
// the same names. JetStream takes them for the same ones, and drops them: the host goes on with
// another log. A reader reads all of that, though no head is in it.
func TestCopyRuns(t *testing.T) {
	s := start(t)
	nc := connect(t, s.URL())
	js := streamOf(t, nc)
	sp := fill(t, filepath.Join(t.TempDir(), "spool"), 40)
	e, _, err := sp.Next(0)
	require.NoError(t, err)
	copied := boot("other", msg("h", 7, 6, 5.7))
	copied.Log = e.Log.ID
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: copied.subject("EVENTS"), Data: copied.data, Header: nats.Header{headerName: {copied.header()}}}, jetstream.WithMsgID(copied.id()))
	require.NoError(t, err)
	p := publishAll(t, nc, sp)
	require.Equal(t, uint64(41), p.acknowledged)
	require.Positive(t, p.retried)
	var got []string
	ids := map[string]bool{}
	for _, m := range stored(t, s.URL()) {
		if ids[m.Log] = true; m.Boot != "other" && !slices.Contains(got, m.Boot) { // those sent with the one that was dropped come again, in the new log
			got = append(got, m.Boot)
		}
	}
	require.Len(t, got, 41)
	require.Len(t, ids, 2)

	_, out, res := readAll(t, s.URL(), "all&once=1")
	for i := 7; i <= 40; i++ { // we come in with the copy's 7
		require.Contains(t, out, fmt.Sprint("h", float64(i)-0.5))
	}
	require.Zero(t, res.Malformed)
}
