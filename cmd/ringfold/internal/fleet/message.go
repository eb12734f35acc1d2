package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// What a message may be at most. Sinks stay far below; what is larger is not theirs.
const (
	maxBytes = 1 << 20 // NATS's own default for a message
	maxName  = 255     // a host's, a boot's, a log's
)

// message is a piece of a host's recording, in the pipe format of perf.data, and what is known of it.
// It is all that happened on the host in a stretch of time. The names are those of the header
// "Ringfold", which has it as JSON. Published again, a message is the same, byte for byte.
type message struct {
	Host string `json:"host"`
	Boot string `json:"boot"` // /proc/sys/kernel/random/boot_id: times of different boots are not comparable
	place

	// The stretch of time, in ns of CLOCK_MONOTONIC. All events from Since on and before Through are
	// in this message; the next one of the log goes on there. A host on which nothing happens goes on
	// to publish messages. Heads have no such stretch, and are for readers who come later.
	Since   uint64 `json:"since,omitempty"`
	Through uint64 `json:"through,omitempty"`
	Offset  int64  `json:"wall,omitempty"`  // ns: CLOCK_REALTIME - CLOCK_MONOTONIC, as measured last
	Error   uint64 `json:"error,omitempty"` // ns: how wrong that may be, as far as the kernel and the measurement tell
	Head    bool   `json:"head,omitempty"`  // it is no piece, but what perfdata.Recorder.Head returns
	End     bool   `json:"end,omitempty"`   // the host ends in good order: nothing follows in this log

	data     []byte
	received time.Time // by a merger's clock
}

// place is where a message belongs. A Sink begins a log whenever it starts, with a random id. Its
// spool numbers the messages 1, 2, 3, ... through all its logs. A log that does not go on where the
// one before it ended is of another spool: a new one, or an older copy.
type place struct {
	Log      string `json:"log,omitempty"`
	Sequence uint64 `json:"seq,omitempty"`
	First    uint64 `json:"first,omitempty"` // the sequence number with which the log begins
	Prior    string `json:"prior,omitempty"` // the log before it in the spool; empty: there was none
}

const headerName = "Ringfold"

// ErrMalformed is in every error of a message that nobody can read, however often.
var ErrMalformed = errors.New("malformed message")

// id names a message: JetStream drops one whose id it has seen a short while ago.
func (p place) id() string { return fmt.Sprintf("%s/%d", p.Log, p.Sequence) }

// subject is where a message is published. What a subject's part cannot hold becomes "_", so two
// hosts may share it.
func (m *message) subject(stream string) string {
	return hostSubject(stream, m.Host) + "." + m.Log + "." + map[bool]string{true: "head", false: "data"}[m.Head]
}

func hostSubject(stream, host string) string {
	return stream + "." + strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_') {
			return r
		}
		return '_'
	}, host)
}

// header is the value of the header "Ringfold".
func (m *message) header() string {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // numbers and text
	}
	return string(b)
}

// encode is how a spool keeps a message that has no place yet: its data behind the header.
func (m *message) encode() []byte { return append([]byte(m.header()), m.data...) }

func decode(b []byte) (m message, err error) {
	header := json.NewDecoder(bytes.NewReader(b))
	if err := header.Decode(&m); err != nil {
		return m, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	m.data = b[header.InputOffset():]
	return m, nil
}

// parseMessage reads a message, which may be anything, and checks what can be checked in it alone,
// but for its records: perfdata.Live does that.
func parseMessage(stream, subject, header string, data []byte) (*message, error) {
	if len(data)+len(header) > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrMalformed, len(data)+len(header), maxBytes)
	}
	m := &message{data: data}
	if header == "" {
		return nil, fmt.Errorf("%w: it has no header %q", ErrMalformed, headerName)
	}
	if err := json.Unmarshal([]byte(header), m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := cmp.Or(checkName("host", m.Host), checkName("boot", m.Boot), checkName("log", m.Log)); err != nil {
		return nil, err
	}
	switch part := func(s string) bool { return hostSubject("", s) == "."+s }; {
	case len(m.Prior) > maxName || !part(m.Log) || !part(m.Prior): // heads are looked up by them
		return nil, fmt.Errorf("%w: its log is %q, after %q", ErrMalformed, m.Log, m.Prior[:min(len(m.Prior), maxName)])
	case m.First == 0 || m.First > m.Sequence || m.Sequence > math.MaxInt64:
		return nil, fmt.Errorf("%w: its sequence number is %d, in a log that begins with %d", ErrMalformed, m.Sequence, m.First)
	case m.Since > m.Through || m.Through > math.MaxInt64/2:
		return nil, fmt.Errorf("%w: it is of the times from %d to %d", ErrMalformed, m.Since, m.Through)
	case m.subject(stream) != subject: // the server's permissions are for subjects
		return nil, fmt.Errorf("%w: it says that it is of host %q, and was published to %s", ErrMalformed, m.Host, subject)
	}
	return m, nil
}

// round is what a Live is to know of the message.
func (m *message) round() perfdata.Round {
	return perfdata.Round{Through: m.Through, Offset: m.Offset, Error: m.Error}
}

// wall is a time of the host by the wall's clock, in ns since 1970.
func (m *message) wall(t uint64) int64 {
	at := int64(min(t, math.MaxInt64))
	if m.Offset > math.MaxInt64-at {
		return math.MaxInt64
	}
	return at + m.Offset
}

// checkName checks a name: it becomes a part of a header, of a path and of lines on a terminal.
func checkName(field, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: its %s is missing", ErrMalformed, field)
	case len(s) > maxName:
		return fmt.Errorf("%w: its %s has %d bytes, more than %d", ErrMalformed, field, len(s), maxName)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return fmt.Errorf("%w: its %s has characters that cannot be printed: %q", ErrMalformed, field, s)
	}
	return nil
}
