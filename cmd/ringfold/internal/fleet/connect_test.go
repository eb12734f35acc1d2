package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"
)

// Where no server answers it goes on trying, and says so; also when one goes away later.
func TestNoServer(t *testing.T) {
	s := start(t)
	s.Stop()
	notes := make(chan string, 100)
	nc, err := Connection{URL: []string{s.URL()}}.Connect("test", func(text string) { notes <- text })
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

// selfSigned makes a certificate for servers on loopback and for clients, which is its own CA, and
// files with it and its key.
func selfSigned(t *testing.T) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: t.Name()}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	write := func(kind string, der []byte) (file string) {
		file = filepath.Join(t.TempDir(), "pem")
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, write("CERTIFICATE", der), write("PRIVATE KEY", private)
}

// An error says what to do. None shows a secret.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	pair, cert, key := selfSigned(t)
	_, other, _ := selfSigned(t)
	secured := start(t, func(o *server.Options) { o.TLS, o.TLSConfig = true, &tls.Config{Certificates: []tls.Certificate{pair}} })
	picky := start(t, func(o *server.Options) {
		trusted := x509.NewCertPool()
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		require.NoError(t, err)
		trusted.AddCert(leaf)
		o.TLS, o.TLSVerify = true, true
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted}
	})
	open := start(t)
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

	t.Setenv("NATS_URL", open.URL())
	for _, good := range []Connection{
		{}, // of the environment
		{URL: []string{open.URL()}},
		{URL: []string{secured.URL()}, TLSCA: cert},
		{URL: []string{picky.URL()}, TLSCA: cert, TLSCert: cert, TLSKey: key},
		{URL: []string{keyed.URL()}, NKey: nkey},
	} {
		nc, err := good.Connect("test", func(string) {})
		require.NoError(t, err)
		for !nc.IsConnected() { // where this machine does not get on, it goes through its timeouts, and tries again
			time.Sleep(time.Millisecond)
		}
		nc.Close()
	}
	for want, bad := range map[string]Connection{
		"the server's certificate is not trusted: give its CA by tlsca":                  {URL: []string{secured.URL()}},
		other + " (tlsca) does not hold the CA that has signed it":                       {URL: []string{secured.URL()}, TLSCA: other},
		"the server refuses us: give a certificate that it trusts by tlscert and tlskey": {URL: []string{picky.URL()}, TLSCA: cert},
		"the server does not know us: give credentials that it accepts by creds or nkey": {URL: []string{keyed.URL()}},
		"the server has no TLS":              {URL: []string{open.URL()}, TLSCA: cert},
		"failed to parse root certificate":   {URL: []string{open.URL()}, TLSCA: junk},
		"no such file":                       {URL: []string{open.URL()}, TLSCA: filepath.Join(dir, "none")},
		"creds=open":                         {URL: []string{open.URL()}, Creds: filepath.Join(dir, "none")},
		"nkey=" + junk + ": ":                {URL: []string{open.URL()}, NKey: junk},
		"tlscert and tlskey need each other": {URL: []string{open.URL()}, TLSCert: cert},
		"creds and nkey exclude each other":  {URL: []string{open.URL()}, Creds: junk, NKey: nkey},
		"error loading client certificate":   {URL: []string{open.URL()}, TLSCert: junk, TLSKey: junk},
		"this is no URL of a NATS server":    {URL: []string{"nats://host:x"}},
	} {
		err := fails(t, bad)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	t.Setenv("NATS_URL", "nats://u:secret@host:x, nats://secret@b")
	_, err = Connection{}.Connect("test", func(string) {})
	require.ErrorContains(t, err, "connecting to host:x,b")
	require.NotContains(t, err.Error(), "secret")
}

// fails returns why o does not connect. A timeout would be no reason, but one to try on: where this
// machine does not get on.
func fails(t *testing.T, o Connection) error {
	t.Helper()
	for {
		said := make(chan string, 1)
		nc, err := o.Connect("test", func(text string) {
			select {
			case said <- text:
			default:
			}
		})
		if err != nil {
			require.Empty(t, said)
			return err
		}
		require.Contains(t, <-said, "timeout")
		nc.Close()
	}
}
