package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/connect/certtest"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func start(t *testing.T, change func(*server.Options)) *broker.Server {
	t.Helper()
	s, err := broker.Start(t.TempDir(), change)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// connected waits until a connection stands: where this machine does not get on, one goes through its timeouts, and tries again.
func connected(nc *nats.Conn) {
	for !nc.IsConnected() {
		time.Sleep(time.Millisecond)
	}
}

func TestConnect(t *testing.T) {
	s := start(t, func(*server.Options) {})
	nc, err := Options{URL: s.URL()}.Connect("test")
	require.NoError(t, err)
	connected(nc)
	nc.Close()

	t.Setenv("NATS_URL", s.URL())
	nc, err = Options{}.Connect("test")
	require.NoError(t, err)
	connected(nc)
	nc.Close()
}

// Where no server answers it goes on trying, and says so; also when one goes away later.
func TestNoServer(t *testing.T) {
	s := start(t, func(*server.Options) {})
	s.Stop()
	notes := make(chan string, 100)
	nc, err := Options{URL: s.URL(), Note: func(text string) { notes <- text }}.Connect("test")
	require.NoError(t, err)
	defer nc.Close()
	require.Contains(t, <-notes, "no NATS server answers at nats://127.0.0.1")
	require.False(t, nc.IsConnected())

	told := func(want string) {
		t.Helper()
		for got := ""; !strings.HasPrefix(got, want); {
			got = <-notes
		}
	}
	told("cannot connect: dial tcp")
	require.NoError(t, s.Restart())
	told("connected to 127.0.0.1")
	s.Stop()
	told("the connection broke")
	told("cannot connect: dial tcp")
	require.NoError(t, s.Restart())
	told("connected to 127.0.0.1")
}

// An error says what to do. None shows a secret.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	ca, other := certtest.New(t, dir, "ca"), certtest.New(t, dir, "other")
	secured := start(t, func(o *server.Options) { o.TLS, o.TLSConfig = true, ca.Server(t) })
	picky := start(t, func(o *server.Options) { o.TLS, o.TLSVerify, o.TLSConfig = true, true, ca.Mutual(t) })
	open := start(t, func(*server.Options) {})
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err := user.PublicKey()
	require.NoError(t, err)
	keyed := start(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	seed, err := user.Seed()
	require.NoError(t, err)
	nkey, junk := filepath.Join(dir, "nkey"), filepath.Join(dir, "junk")
	require.NoError(t, os.WriteFile(nkey, seed, 0o600))
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o600))
	cert, key := ca.Client(t, "client")

	for _, good := range []Options{
		{URL: secured.URL(), TLSCA: ca.File},
		{URL: picky.URL(), TLSCA: ca.File, TLSCert: cert, TLSKey: key},
		{URL: keyed.URL(), NKey: nkey},
	} {
		nc, err := good.Connect("test")
		require.NoError(t, err)
		connected(nc)
		nc.Close()
	}
	for want, bad := range map[string]Options{
		"the server's certificate is not trusted: give its CA by --tlsca":                    {URL: secured.URL()},
		other.File + " (--tlsca) does not hold the CA that has signed it":                    {URL: secured.URL(), TLSCA: other.File},
		"the server refuses us: give a certificate that it trusts by --tlscert and --tlskey": {URL: picky.URL(), TLSCA: ca.File},
		"the server does not know us: give credentials that it accepts by --creds or --nkey": {URL: keyed.URL()},
		"the server has no TLS":                    {URL: open.URL(), TLSCA: ca.File},
		"failed to parse root certificate":         {URL: open.URL(), TLSCA: junk},
		"no such file":                             {URL: open.URL(), TLSCA: filepath.Join(dir, "none")},
		"--creds: open":                            {URL: open.URL(), Creds: filepath.Join(dir, "none")},
		"--nkey " + junk:                           {URL: open.URL(), NKey: junk},
		"--tlscert and --tlskey need each other":   {URL: open.URL(), TLSCert: cert},
		"--creds and --nkey exclude each other":    {URL: open.URL(), Creds: junk, NKey: nkey},
		"error loading client certificate":         {URL: open.URL(), TLSCert: junk, TLSKey: junk},
		"this is no URL of a NATS server":          {URL: "nats://host:x"},
		"--url must not have a user or a password": {URL: "nats://u:secret@" + open.Addr().String()},
	} {
		err := fails(t, bad)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	t.Setenv("NATS_URL", "nats://u:secret@host:x, nats://secret@b")
	_, err = Options{}.Connect("test")
	require.ErrorContains(t, err, "connecting to host:x,b")
	require.NotContains(t, err.Error(), "secret")
}

// fails returns why o does not connect. A timeout would be no reason, but one to try on: where this machine does not get on.
func fails(t *testing.T, o Options) error {
	t.Helper()
	for {
		said := make(chan string, 1)
		o.Note = func(text string) {
			select {
			case said <- text:
			default:
			}
		}
		nc, err := o.Connect("test")
		if err != nil {
			require.Empty(t, said)
			return err
		}
		require.Contains(t, <-said, "timeout")
		nc.Close()
	}
}

func TestFlags(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	var o Options
	o.Flags(f)
	require.NoError(t, f.Parse([]string{"--url", "u", "--creds", "c", "--nkey", "n", "--tlscert", "t", "--tlskey", "k", "--tlsca", "a"}))
	o.Note = nil
	require.Equal(t, "u c n t k a", o.URL+" "+o.Creds+" "+o.NKey+" "+o.TLSCert+" "+o.TLSKey+" "+o.TLSCA)
}
