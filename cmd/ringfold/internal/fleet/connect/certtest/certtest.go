// Package certtest makes certificates for tests.
package certtest

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
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CA signs certificates.
type CA struct {
	File string // its certificate
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes a CA, which keeps its files in dir.
func New(t testing.TB, dir, name string) *CA {
	t.Helper()
	ca := &CA{File: filepath.Join(dir, name+".pem"), dir: dir}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var der []byte
	der, ca.key = ca.sign(t, name, template)
	var err error
	ca.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	write(t, ca.File, "CERTIFICATE", der)
	return ca
}

// sign signs with the CA's key, or, for its own certificate, with the new one.
func (ca *CA) sign(t testing.TB, name string, template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	return der, key
}

// Server is the configuration of a server on loopback.
func (ca *CA) Server(t testing.TB) *tls.Config {
	t.Helper()
	der, key := ca.sign(t, "server", &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// Mutual is that of one that wants clients to have certificates of the CA.
func (ca *CA) Mutual(t testing.TB) *tls.Config {
	t.Helper()
	c := ca.Server(t)
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	c.ClientCAs.AddCert(ca.cert)
	return c
}

// Client makes the files of a client's certificate and its key.
func (ca *CA) Client(t testing.TB, name string) (certFile, keyFile string) {
	t.Helper()
	der, key := ca.sign(t, name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(ca.dir, name+".cert.pem"), filepath.Join(ca.dir, name+".key.pem")
	write(t, certFile, "CERTIFICATE", der)
	write(t, keyFile, "EC PRIVATE KEY", private)
	return certFile, keyFile
}

func write(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
