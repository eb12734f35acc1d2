package fleet

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// follower is a Reader of a stream, and all that it has delivered.
type follower struct {
	*Reader
	t      testing.TB
	stream *perfbuf.Stream
	first  *perfbuf.Reader
	ended  chan struct{}
	slow   chan struct{} // the first event waits for it; nil: not

	mu        sync.Mutex
	out       []string
	late      int
	delivered map[string]Host
	notes     []string
}

// open opens a reader of EVENTS. Parameters are those of an address.
func open(t testing.TB, url, parameters string) *follower {
	t.Helper()
	a, err := Parse(url+"/EVENTS?"+parameters, false)
	require.NoError(t, err)
	r := &follower{t: t, ended: make(chan struct{}), delivered: map[string]Host{}}
	a.Read.Note = func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes = append(r.notes, text)
	}
	r.Reader, err = a.OpenReader(func(host string, l *perfdata.Live) error {
		for _, e := range l.Events() {
			events, err := l.Open(e.Name, perfbuf.Options{Name: host})
			if err != nil {
				return err
			}
			if r.stream == nil {
				r.first = events
				r.stream, err = perfbuf.Merge(perfbuf.StreamOptions{}, events)
			} else {
				err = r.stream.Add(events)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	return r
}

// run reads in the background.
func (r *follower) run() *follower {
	r.Start()
	go func() {
		defer close(r.ended)
		err := r.stream.Run(context.Background(), func(ev perfbuf.Event) error {
			if r.slow != nil {
				<-r.slow
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			d := r.delivered[ev.Source()]
			if d.Lost += ev.Lost(); ev.Kind() == perfbuf.KindSample {
				d.Events++
			}
			r.delivered[ev.Source()] = d
			r.out = append(r.out, text(ev.Record()))
			if ev.Late() {
				r.late++
			}
			return nil
		})
		if err != io.EOF {
			r.t.Error(err)
		}
	}()
	return r
}

// has waits until so much has come.
func (r *follower) has(n int) {
	poll(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.out) >= n
	})
}

// result waits for the end.
func (r *follower) result() Result {
	r.t.Helper()
	<-r.ended
	res, err := r.Result(r.delivered)
	require.NoError(r.t, err)
	r.stream.Close()
	r.first.Close()
	return res
}

// readAll reads to the end.
func readAll(t testing.TB, url, parameters string) (r *follower, out []string, res Result) {
	t.Helper()
	r = open(t, url, strings.Replace(parameters, "all", "since=all", 1)).run()
	res = r.result()
	return r, r.out, res
}

// put publishes messages, each with its head if its log begins.
func put(t testing.TB, js jetstream.JetStream, all ...*message) {
	t.Helper()
	for _, m := range all {
		raw(t, js, m.subject("EVENTS"), m.header(), m.data)
	}
}

func raw(t testing.TB, js jetstream.JetStream, subject, header string, data []byte) {
	t.Helper()
	_, err := js.PublishMsg(context.Background(), &nats.Msg{Subject: subject, Data: data, Header: nats.Header{headerName: {header}}})
	require.NoError(t, err)
}

// headOf is the head of a host's log, as its first message.
func headOf(host string) *message {
	m := msg(host, 1, 0)
	m.Head, m.data = true, head("events")
	return m
}

// What was stored is read again as it was read live, also in the middle of a log. Messages of
// strangers, and what nobody can read, are told.
func TestReads(t *testing.T) {
	s := start(t)
	js := streamOf(t, connect(t, s.URL()))
	live := open(t, s.URL(), "wait=a.b,c&dead=1h").run()
	poll(func() bool { return consumers(t, js) == 1 })
	put(t, js, headOf("a.b"), msg("a.b", 2, 1, 0.5))
	raw(t, js, "EVENTS.a_b.log.data", "junk", nil)
	raw(t, js, "EVENTS.other", "", nil)
	raw(t, js, "EVENTS.impostor.log.data", msg("a.b", 3, 2).header(), nil)
	put(t, js, headOf("c"), since(0.5, msg("c", 2, 1, 0.7)), since(1, msg("a.b", 4, 2, 1.5)), since(1, msg("c", 3, 2, 1.7)), since(1, msg("c", 3, 2, 1.7)),
		ends(msg("a.b", 5, 3)), ends(msg("c", 4, 3)))
	live.has(5) // c's last waits for a.b
	live.Stop()
	res := live.result()
	// A stalled reader hears of a host after others' events, and gaps have no place of their own: which
	// events are late differs.
	placed := func(out []string) (lines []string) {
		for _, line := range out {
			lines = append(lines, strings.TrimSuffix(line, " late"))
		}
		return lines
	}
	for _, p := range []string{"all&once=true", "all&once=true&wait=c"} {
		_, out, again := readAll(t, s.URL(), p)
		require.ElementsMatch(t, placed(live.out), placed(out), p)
		require.Equal(t, res, again, p)
	}
	require.Equal(t, uint64(3), res.Malformed)
	require.Equal(t, uint64(1), res.Duplicates)
	require.Equal(t, map[string]uint64{Malformed: 3, MissingMessages: 1}, res.Gaps)
	require.Equal(t, Host{Events: 2, From: at(0), To: at(3), Gaps: 2}, res.Hosts["a.b"])
	require.Equal(t, Host{Events: 2, From: at(0.5), To: at(3)}, res.Hosts["c"])
	require.Equal(t, []string{"a.b: gaps: 2", "gaps of unknown hosts: 2"}, res.Unknown)
	said := strings.Join(live.out, "\n")
	require.Contains(t, said, `other: message 4 of the stream: malformed message: it has no header "Ringfold"`)
	require.Contains(t, said, `it says that it is of host "a.b", and was published to EVENTS.impostor.log.data`)
	require.Contains(t, said, "a.b: malformed: message 3 of the stream: malformed message: invalid character")

	// One host, also where another has the same subject; and from the middle on, with the head of before.
	put(t, js, headOf("a_b"), msg("a_b", 2, 1, 0.5))
	_, out, _ := readAll(t, s.URL(), "all&once=true&hosts=a_b")
	require.Equal(t, "a_b0.5", out[len(out)-1], "the others are malformed, of its subject")
	middle := open(t, s.URL(), "hosts=c&dead=1h").run()
	poll(func() bool { return reads(t, js, "c") }) // the consumers of readers that have ended may still be there
	put(t, js, since(3, msg("c", 5, 4, 3.5)), ends(msg("c", 6, 5)))
	middle.has(1)
	middle.Stop()
	require.Equal(t, map[string]Host{"c": {Events: 1, From: at(3), To: at(5)}}, middle.result().Hosts)
}

// reads says whether a reader of this host alone has its consumer.
func reads(t testing.TB, js jetstream.JetStream, host string) (found bool) {
	stream, err := js.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)
	for info := range stream.ListConsumers(t.Context()).Info() {
		found = found || slices.Contains(append(info.Config.FilterSubjects, info.Config.FilterSubject), hostSubject("EVENTS", host)+".>")
	}
	return found
}

func consumers(t testing.TB, js jetstream.JetStream) int {
	stream, err := js.Stream(context.Background(), "EVENTS")
	require.NoError(t, err)
	return stream.CachedInfo().State.Consumers
}

// What the stream has dropped, as its limits say, is not known; a log whose head is gone cannot be read.
func TestStreamDrops(t *testing.T) {
	s := start(t)
	js := streamOf(t, connect(t, s.URL()))
	began := time.Now().Add(-time.Minute)
	put(t, js, headOf("a"))
	for n := range uint64(100) {
		m := since(float64(n)/100, msg("a", n+2, float64(n+1)/100, (float64(n)+0.5)/100))
		m.Offset = began.UnixNano()
		put(t, js, m)
	}
	_, _, res := readAll(t, s.URL(), "since=1m&once=1")
	require.Empty(t, res.Unknown)
	stream, err := js.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)
	config := stream.CachedInfo().Config
	config.MaxMsgs = 30
	_, err = js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	r, out, res := readAll(t, s.URL(), "since=1h&once=1")
	require.Len(t, out, 1)
	require.Contains(t, out[0], "malformed: a: message 72 of log log: the head of log log: the stream has dropped it, so its events cannot be read")
	require.Equal(t, []string{"a: unknown before " + localTime(began.Add(700*time.Millisecond)), "a: gaps: 1"}, res.Unknown)
	require.Contains(t, r.notes[0], "stream EVENTS has dropped what was stored before 20")
	m := headOf("a")
	m.Sequence = 102
	put(t, js, m, since(1, msg("a", 103, 2, 1.5)))
	_, out, _ = readAll(t, s.URL(), "all&once=1")
	require.Contains(t, out, "a1.5")
}

// However slow the events are read, nothing is lost. While the server is away the reader waits; what
// was missed comes then.
func TestSlowReader(t *testing.T) {
	s := start(t)
	js := streamOf(t, connect(t, s.URL()))
	r := open(t, s.URL(), "buffer=10&dead=2s&wait=a")
	r.slow = make(chan struct{})
	r.run()
	poll(func() bool { return consumers(t, js) == 1 })
	put(t, js, headOf("a"))
	var want []string
	for n := range 3000 {
		m := msg("a", uint64(n+2), float64(n+1))
		want = append(want, fmt.Sprint("a", n))
		m.data = sample(nil, ns(float64(n)+0.5), want[n]+strings.Repeat("\x00", 3000))
		switch m.Since = uint64(n) * 1e9; n {
		case looks - 1: // all that is there has been read
			time.Sleep(3 * time.Second)
		case 2000:
			s.Stop()
			require.NoError(t, s.Restart())
		}
		put(t, js, m)
	}
	close(r.slow)
	poll(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Contains(r.out, want[len(want)-1])
	})
	r.Stop()
	res := r.result()
	// How much the rings and the stream hold themselves is not for this test to know. If that is
	// enough, the pause above made the host silent.
	events := slices.DeleteFunc(r.out, func(line string) bool { return strings.Contains(line, ": ") })
	require.Equal(t, want, events)
	require.Empty(t, res.Gaps[MissingMessages])
}

// An error says what to do.
func TestNoStream(t *testing.T) {
	none, err := broker.Start(t.TempDir(), func(o *server.Options) { o.JetStream = false })
	require.NoError(t, err)
	defer none.Close()
	s := start(t)
	for url, want := range map[string]string{none.URL(): "has no JetStream: run nats-server with -js", s.URL(): "there is no stream EVENTS at 127.0.0.1:"} {
		r := open(t, url, "since=all").run()
		<-r.ended
		res, err := r.Result(nil)
		require.ErrorContains(t, err, want)
		require.Equal(t, []string{"no host has been heard of"}, res.Unknown)
		r.stream.Close()
		r.first.Close()
	}
	js, err := jetstream.New(connect(t, s.URL()))
	require.NoError(t, err)
	err = ensure(t.Context(), js, "a.b", SinkOptions{Note: func(note string) { t.Error(note) }})
	require.ErrorIs(t, err, jetstream.ErrInvalidStreamName)
}

// A host is started again with its spool, without it, and with an older copy of it: all that it has
// read is there, and what nobody has read is a gap that says why.
func TestFleet(t *testing.T) {
	s := start(t)
	path := filepath.Join(t.TempDir(), "spool")
	var want uint64
	var older []byte
	for i := range 4 {
		switch i {
		case 1:
			older = slurp(t, path)
		case 2:
			require.NoError(t, os.Remove(path))
		case 3:
			require.NoError(t, os.WriteFile(path, older, 0o600))
		}
		r := publish(t, connect(t, s.URL()), SinkOptions{Spool: path}, newMade(500, 200))
		r.wait(200)
		r.end()
		want += 200
	}
	r, out, res := readAll(t, s.URL(), "all&once=1")
	require.Zero(t, r.late)
	var gaps []string
	for _, line := range out {
		if strings.HasPrefix(line, "h: ") {
			gaps = append(gaps, line[3:13])
		}
	}
	require.Equal(t, []string{AgentDown, SpoolLost, SpoolLost}, gaps)
	require.Equal(t, want, res.Hosts["h"].Events)
	require.Zero(t, res.Duplicates)
	require.Equal(t, []string{"h: gaps: 3"}, res.Unknown)
}
