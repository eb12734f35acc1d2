package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// epoch is when the hosts of tests were booted, and at is a second since then.
var epoch = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return epoch.Add(time.Duration(math.Round(s * float64(time.Second)))) }

func ns(s float64) uint64 { return uint64(math.Round(s * 1e9)) }

// sample appends a record as a Recorder writes it.
func sample(b []byte, t uint64, payload string) []byte {
	size := (44 + len(payload) + 7) &^ 7
	r := make([]byte, size)
	binary.NativeEndian.PutUint32(r, typeSample)
	binary.NativeEndian.PutUint16(r[6:], uint16(size))
	binary.NativeEndian.PutUint64(r[8:], 1)
	binary.NativeEndian.PutUint64(r[24:], t)
	binary.NativeEndian.PutUint32(r[40:], uint32(len(payload)))
	copy(r[44:], payload)
	return append(b, r...)
}

// head is that of a recording that has an event of a name.
func head(event string) []byte {
	rec, err := perfdata.NewRecorder(io.Discard, perfdata.Options{Events: []perfdata.EventInfo{{Name: event}}, BufferBytes: 64 << 10})
	if err != nil {
		panic(err)
	}
	return rec.Head()
}

// msg makes a message of a host. Times are in seconds since its boot, and are the events' payloads,
// behind the host's name. It claims all that was before, but for the messages before it.
func msg(host string, sequence uint64, through float64, events ...float64) *message {
	m := &message{Host: host, Boot: "boot", place: place{Log: "log", Sequence: sequence, First: 1}, Through: ns(through), Offset: epoch.UnixNano()}
	for _, s := range events {
		m.data = sample(m.data, ns(s), fmt.Sprint(host, s))
	}
	return m
}

// since has a message claim no more than what happened from then on.
func since(s float64, m *message) *message {
	m.Since = ns(s)
	return m
}

// of has a message be of another log, which begins with first and follows a prior one in its spool.
func of(log string, first uint64, prior string, m *message) *message {
	m.Log, m.First, m.Prior = log, first, prior
	return m
}

func boot(id string, m *message) *message {
	m.Boot = id
	return m
}

// ends has a message be its log's last.
func ends(m *message) *message {
	m.End = true
	return m
}

// wrong has the host's clock be so many seconds ahead.
func wrong(s float64, m *message) *message {
	m.Offset += int64(s * 1e9)
	return m
}

// merged is a merger, and the stream that its recordings are merged to.
type merged struct {
	*merger
	t      testing.TB
	stream *perfbuf.Stream
	lives  map[string]*perfdata.Live // by their readers' names
	events []perfbuf.Record          // that came since the last time
}

// newMerged makes a merger, which began two seconds before epoch. All heads of logs are the same.
func newMerged(t testing.TB, o ReadOptions) *merged {
	m := &merged{t: t, lives: map[string]*perfdata.Live{}}
	if o.Dead == 0 {
		o.Dead = DefaultDead
	}
	if o.Buffer == 0 {
		o.Buffer = DefaultBuffer
	}
	var err error
	same := head("events")
	m.merger, err = newMerger(o, at(-2), m.admit, func(*message) ([]byte, error) { return same, nil })
	require.NoError(t, err)
	t.Cleanup(func() { m.stream.Close() })
	return m
}

// admit opens a reader of a recording. Its name is the host's, and a number if it is not the first.
func (m *merged) admit(host string, l *perfdata.Live) (err error) {
	for n := 2; m.lives[host] != nil; n++ {
		host = fmt.Sprintf("%s#%d", strings.TrimRight(host, "#0123456789"), n)
	}
	m.lives[host] = l
	r, err := l.Open(l.Events()[0].Name, perfbuf.Options{Name: host})
	require.NoError(m.t, err)
	m.t.Cleanup(func() { r.Close() })
	if m.stream == nil {
		m.stream, err = perfbuf.Merge(perfbuf.StreamOptions{}, r)
		return err
	}
	return m.stream.Add(r)
}

// feed feeds messages that are received at the same time.
func (m *merged) feed(s float64, messages ...*message) *merged {
	for _, one := range messages {
		m.merger.feed(one, at(s))
	}
	return m.idle(s)
}

// idle is when nothing comes.
func (m *merged) idle(s float64) *merged {
	m.advance(at(s))
	m.look()
	return m
}

// read reads what can be delivered now, in a bubble.
func (m *merged) read() []perfbuf.Record {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Second)
	defer cancel()
	m.events = nil
	err := m.stream.Run(ctx, func(ev perfbuf.Event) error {
		m.events = append(m.events, ev.Record())
		return nil
	})
	if err != io.EOF {
		require.ErrorIs(m.t, err, context.DeadlineExceeded)
	}
	return m.events
}

// out reads, and says what came.
func (m *merged) out() (out []string) {
	for _, r := range m.read() {
		out = append(out, text(r))
	}
	return out
}

// text is an event's payload, or what a gap says.
func text(r perfbuf.Record) (s string) {
	switch {
	case r.Kind == perfbuf.KindSample:
		s = strings.TrimRight(string(r.Data), "\x00")
	case r.LostAfter == 0:
		s = fmt.Sprintf("%s: %s", r.Source, r.Reason)
	default:
		s = fmt.Sprintf("%s: %s, after %v", r.Source, r.Reason, time.Unix(0, int64(r.LostAfter)).Sub(epoch).Seconds())
	}
	if r.Late {
		s += " late"
	}
	return s
}
