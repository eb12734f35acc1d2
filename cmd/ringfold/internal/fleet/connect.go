package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Connection has the servers' addresses and our identity. Secrets are in files: every user sees
// command lines.
type Connection struct {
	URL     []string // of servers; none: $NATS_URL, or the local one
	Creds   string   // file with a user's JWT and seed
	NKey    string   // file with the seed of a user's NKey
	TLSCert string   // file with a client's certificate
	TLSKey  string   // and with its key
	TLSCA   string   // file with the certificates that a server's is checked against; empty: the system's
}

// Connect connects. If no server answers, it notes that and returns a connection that goes on
// trying, as it does when it breaks later. note gets each change of the connection and each failed
// try, from any goroutine. An error is one that trying again does not mend: of the options, our
// identity, or the server's.
func (o Connection) Connect(name string, note func(text string)) (*nats.Conn, error) {
	tell := func(format string, args ...any) { note(fmt.Sprintf(format, args...)) }
	servers := o.servers()
	opts, err := o.options(name, tell)
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(servers, opts...)
	if err == nil {
		return nc, nil
	}
	if err := o.explain(err); err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", redacted(servers), err)
	}
	tell("no NATS server answers at %s (%v): trying on", redacted(servers), err)
	return nats.Connect(servers, append(opts, nats.RetryOnFailedConnect(true), nats.ConnectHandler(func(nc *nats.Conn) {
		tell("connected to %s", nc.ConnectedAddr())
	}))...)
}

// servers is where to connect to.
func (o Connection) servers() string {
	if len(o.URL) > 0 {
		return strings.Join(o.URL, ",")
	}
	if env := os.Getenv("NATS_URL"); env != "" {
		return env
	}
	return nats.DefaultURL
}

// redacted is what may be shown of servers: no user, no password, no token.
func redacted(servers string) string {
	list := strings.Split(servers, ",")
	for i, one := range list {
		list[i] = one[strings.LastIndex(one, "@")+1:]
	}
	return strings.Join(list, ",")
}

func (o Connection) options(name string, tell func(string, ...any)) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // mending that must not take a restart of every agent
		nats.ReconnectWait(500 * time.Millisecond),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			tell("connected to %s again", nc.ConnectedAddr())
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: by Close
				tell("the connection broke: %v: trying to connect again", err)
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			tell("cannot connect: %v: trying on", err)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { tell("NATS: %v", err) }),
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, errors.New("tlscert and tlskey need each other")
	}
	if o.Creds != "" && o.NKey != "" {
		return nil, errors.New("creds and nkey exclude each other")
	}
	if o.Creds != "" {
		if _, err := os.ReadFile(o.Creds); err != nil { // nats.go reads it when it connects, and then goes by the server's answer
			return nil, fmt.Errorf("creds=%w", err)
		}
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.NKey != "" {
		opt, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("nkey=%s: %w", o.NKey, err)
		}
		opts = append(opts, opt)
	}
	if o.TLSCert != "" {
		opts = append(opts, nats.ClientCert(o.TLSCert, o.TLSKey))
	}
	if o.TLSCA != "" {
		opts = append(opts, nats.RootCAs(o.TLSCA))
	}
	return opts, nil
}

// explain returns what is to be said of an error that trying again does not mend, and nil for
// others.
func (o Connection) explain(err error) error {
	var (
		file      *fs.PathError
		address   *url.Error
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		alert     tls.AlertError
		slow      net.Error
	)
	switch {
	case errors.As(err, &slow) && slow.Timeout():
		return nil
	case errors.As(err, &authority):
		fix := "give its CA by tlsca"
		if o.TLSCA != "" {
			fix = o.TLSCA + " (tlsca) does not hold the CA that has signed it"
		}
		return fmt.Errorf("the server's certificate is not trusted: %s: %w", fix, err)
	case errors.As(err, &verify):
		return fmt.Errorf("the server's certificate is not valid for this: %w", err)
	// An alert of the server's may come as an error of crypto/tls that has no type, or be lost when
	// the server closes the connection.
	case errors.As(err, &alert) || errors.Is(err, nats.ErrTLS) || strings.Contains(err.Error(), "remote error: tls"):
		return fmt.Errorf("the server refuses us: give a certificate that it trusts by tlscert and tlskey: %w", err)
	case errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("the server does not know us: give credentials that it accepts by creds or nkey: %w", err)
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("the server has no TLS: leave out tlsca, tlscert, tlskey, or configure it: %w", err)
	case errors.As(err, &address):
		return fmt.Errorf("this is no URL of a NATS server: %w", address.Err) // without the URL, which may hold a password
	case errors.As(err, &file), errors.Is(err, nats.ErrNkeysNotSupported):
		return err
	case strings.Contains(err.Error(), "root certificate") || strings.Contains(err.Error(), "client certificate"):
		return err
	}
	return nil
}
