package fleet

import (
	"cmp"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	require.True(t, Is("nats:///E") && Is("tls://a/E") && !Is("perf.data"))
	a, err := Parse("tls://a:1,b/EVENTS?hosts=x,%20y&wait=z&since=all&dead=1s&buffer=7&creds=c&tlsca=ca", false)
	require.NoError(t, err)
	require.Equal(t, Address{
		Connection: Connection{URL: []string{"tls://a:1", "tls://b"}, Creds: "c", TLSCA: "ca"}, Stream: "EVENTS", Write: a.Write,
		Read: ReadOptions{Only: []string{"x", "y"}, Hosts: []string{"z"}, All: true, Dead: time.Second, Buffer: 7},
	}, a)
	a, err = Parse("nats:///E?host=h&spool=/s&spool-size=1MiB&max-age=1h&max-bytes=2GiB&replicas=3&nkey=n&tlscert=t&tlskey=k", true)
	require.NoError(t, err)
	require.Equal(t, Address{
		Connection: Connection{NKey: "n", TLSCert: "t", TLSKey: "k"}, Stream: "E", Read: a.Read,
		Write: SinkOptions{Host: "h", Spool: "/s", SpoolBytes: 1 << 20, MaxAge: time.Hour, MaxBytes: 2 << 30, Replicas: 3},
	}, a)
	a, err = Parse("nats:///E", true)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, SinkOptions{Host: host, Spool: DefaultSpool, SpoolBytes: 256 << 20, MaxAge: 24 * time.Hour, MaxBytes: 1 << 30, Replicas: 1}, a.Write)

	for address, want := range map[string]string{
		"nats://u:secret@a/E":       "must not have a user or a password",
		"nats://a":                  `"" is no name of a stream`,
		"nats://a/E.F":              `"E.F" is no name of a stream`,
		"nats://a/E?x=1":            `there is no parameter "x" here, but creds, nkey`,
		"nats://a/E?host=x":         `there is no parameter "host" here`,
		"nats://a/E?a=%zz":          "the parameters",
		"nats://a/E?once=1":         "once needs since",
		"nats://a/E?once=x":         "once=x",
		"nats://a/E?dead=0s":        "dead and buffer must be positive",
		"nats://a/E?buffer=-1":      "dead and buffer must be positive",
		"nats://a/E?since=never":    "a time ago, such as 10m",
		"nats://a/E?since=-10m":     "a time ago, such as 10m",
		"nats://a/E?hosts=a,,b":     "names of hosts, separated by commas",
		"w nats://a/E?max-age=1m":   "max-age must be 2m0s at least",
		"w nats://a/E?spool-size=0": "spool-size and replicas positive",
		"w nats://a/E?max-bytes=x":  "max-bytes=x",
		"w nats://a/E?replicas=0":   "replicas positive",
		"w nats://a/E?since=1m":     `there is no parameter "since" here`,
		"w nats://a/E?host=a%0a":    "its host has characters that cannot be printed",
	} {
		address, write := strings.CutPrefix(address, "w ")
		_, err := Parse(address, write)
		require.ErrorContains(t, err, want, address)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestSince(t *testing.T) {
	for s, want := range map[string]time.Time{"10m": at(-600), "0s": at(0), "2026-01-02T03:00:01Z": at(1)} {
		got, all, err := parseSince(s, at(0))
		require.NoError(t, err)
		require.False(t, all)
		require.True(t, want.Equal(got), s)
	}
}

// A message comes back as it was sent, and as it was spooled. What cannot be is refused.
func TestMessage(t *testing.T) {
	m := since(1, of("L2", 3, "L1", msg("web-1.é x", 7, 2, 1.5)))
	m.Error, m.End = 5, true
	require.Equal(t, "E.web-1___x.L2.data", m.subject("E"))
	require.Equal(t, "L2/7", m.id())
	got, err := parseMessage("E", m.subject("E"), m.header(), m.data)
	require.NoError(t, err)
	require.Equal(t, m, got)
	spooled, err := decode(m.encode())
	require.NoError(t, err)
	require.Equal(t, *m, spooled)
	for cut := range len(m.encode()) - len(m.data) {
		_, err := decode(m.encode()[:cut])
		require.ErrorIs(t, err, ErrMalformed)
	}
	require.Equal(t, []int64{math.MaxInt64, -1, epoch.UnixNano() + 1}, []int64{(&message{Offset: math.MaxInt64}).wall(1), (&message{Offset: -2}).wall(1), m.wall(1)})

	for want, change := range map[string]func(m *message){
		"its host is missing":              func(m *message) { m.Host = "" },
		"its host has 256 bytes":           func(m *message) { m.Host = strings.Repeat("x", 256) },
		"its boot has characters":          func(m *message) { m.Boot = "\u202e" },
		"its log is missing":               func(m *message) { m.Log = "" },
		`its log is "*", after "L1"`:       func(m *message) { m.Log = "*" },
		`its log is "L2", after "a.b"`:     func(m *message) { m.Prior = "a.b" },
		"in a log that begins with 0":      func(m *message) { m.First = 0 },
		"in a log that begins with 8":      func(m *message) { m.First = 8 },
		"its sequence number is 1844674":   func(m *message) { m.Sequence = math.MaxUint64 },
		"it is of the times from 3 to 2":   func(m *message) { m.Since, m.Through = 3, 2 },
		"it is of the times from 0 to 922": func(m *message) { m.Since, m.Through = 0, math.MaxInt64 },
		"1048577 bytes, more than":         func(m *message) { m.data = make([]byte, maxBytes+1-len(m.header())) },
		"and was published to E.a.L2.data": func(m *message) { m.Host = "b" },
	} {
		m := of("L2", 3, "L1", msg("a", 7, 2, 1.5))
		subject := m.subject("E")
		if change(m); !strings.Contains(want, "E.a") {
			subject = m.subject("E")
		}
		_, err := parseMessage("E", subject, m.header(), m.data)
		require.ErrorIs(t, err, ErrMalformed)
		require.ErrorContains(t, err, want)
	}
	_, err = parseMessage("E", "E.a.L.data", "", nil)
	require.ErrorContains(t, err, `it has no header "Ringfold"`)
}

// Whatever comes as a message, and as a head, is read or refused, and takes no more memory than a
// multiple of it.
func FuzzMessage(f *testing.F) {
	m := msg("a", 2, 1, 0.5)
	f.Add(m.header(), m.data, head("events"))
	m.data = perfdata.Gap{Reason: "x", Count: 3, After: 1, Time: 2}.Append(m.data)
	f.Add(m.header(), m.data, head("other"))
	good := head("events")
	f.Fuzz(func(t *testing.T, header string, data, first []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := parseMessage("E", "E.a.log.data", header, data)
		if err != nil {
			return
		}
		l := perfdata.NewLive("a")
		if err := cmp.Or(l.Head(first), l.Head(good)); err == nil {
			r, err := l.Open(l.Events()[0].Name, perfbuf.Options{})
			require.NoError(t, err)
			defer r.Close()
			floor, _ := l.Through()
			_ = l.Feed(m.data, m.round())
			now, _ := l.Through()
			require.GreaterOrEqual(t, now, floor)
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20+100*(len(header)+len(data)+len(first))))
	})
}
