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
	require.NoError(t, ensure(t.Context(), nc, "EVENTS", SinkOptions{MaxAge: time.Hour, MaxBytes: 1 << 30, Replicas: 1, Note: func(string) {}}))
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Hour))
	require.NoError(t, err)
	return js
}

// publisherOf makes a publisher for a spool.
func publisherOf(nc *nats.Conn, sp *spool.Spool) *publisher {
	o := SinkOptions{AckWait: time.Hour, Note: func(string) {}}
	return newPublisher(nc, "EVENTS", o, sp, newQueue(sp, 1<<30, o.Note))
}

// publishAll publishes what a spool has, and closes it.
func publishAll(t *testing.T, nc *nats.Conn, sp *spool.Spool) *publisher {
	t.Helper()
	p := publisherOf(nc, sp)
	p.finish()
	require.NoError(t, p.run(t.Context()))
	require.Zero(t, sp.Bytes())
	require.Zero(t, p.queue.used.Load(), "room that is not given back")
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

// An answer counts for the log in which a message was sent. That the stream has had a message is no
// news once it was sent twice.
func TestAnswers(t *testing.T) {
	nc := connect(t, start(t).URL())
	sp, err := spool.Open(filepath.Join(t.TempDir(), "spool"))
	require.NoError(t, err)
	defer sp.Close()
	p := publisherOf(nc, sp)
	answer := func(attempt, position int, duplicate bool) {
		p.answer(&nats.Msg{Subject: fmt.Sprint(p.inbox, ".", attempt, ".", position), Data: fmt.Appendf(nil, `{"stream":"EVENTS","duplicate":%v}`, duplicate)})
	}
	under := func() (positions []uint64) {
		for _, s := range p.flight {
			positions = append(positions, s.Position)
		}
		return positions
	}
	one := msg("h", 0, 1).encode()
	require.NoError(t, sp.Append(one, one))
	poll(nc.IsConnected)
	require.NoError(t, p.fill())
	p.again(t.Context())
	require.NoError(t, sp.Append(one, one, one))
	require.NoError(t, p.fill())
	require.Equal(t, []uint64{1, 2, 3, 4, 5}, under())
	first := p.flight[0].Log
	answer(1, 1, true)
	require.NoError(t, p.failure)
	require.Equal(t, []uint64{2, 3, 4, 5}, under())

	answer(2, 5, false)
	answer(2, 4, true) // it was sent once
	require.ErrorContains(t, p.failure, "message 4 of log "+first.ID+" was published by another agent")
	second := p.flight[2].Log
	require.Equal(t, spool.Log{ID: second.ID, First: 4, Prior: first.ID}, second)
	require.Equal(t, []spool.Log{first, first, second, second}, []spool.Log{p.flight[0].Log, p.flight[1].Log, p.flight[2].Log, p.flight[3].Log})
	answer(2, 2, false)
	answer(2, 3, false)
	answer(2, 4, false)
	require.Equal(t, []uint64{4, 5}, under(), "they were of the first log")
	p.again(t.Context())
	answer(2, 4, false)
	require.Equal(t, []uint64{4, 5}, under())
	answer(3, 4, false)
	require.Equal(t, []uint64{5}, under(), "of the second log it is not there")
	answer(3, 5, false)
	require.Empty(t, under())
}
