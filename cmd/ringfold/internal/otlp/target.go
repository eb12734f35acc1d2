package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

// defaultPort is where collectors take OTLP by gRPC.
const defaultPort = "4317"

// Target says which collector gets the records, and as whose.
type Target struct {
	Service string // the attribute service.name, empty for the default

	address string            // host:port
	tls     *tls.Config       // nil: none
	headers map[string]string // of each request
}

// Is reports whether the value of --write names a collector, and not a file.
func Is(write string) bool {
	return strings.HasPrefix(write, "otlp://") || strings.HasPrefix(write, "otlps://")
}

// String is the address, without what may be secret.
func (t *Target) String() string {
	if t.tls != nil {
		return "otlps://" + t.address
	}
	return "otlp://" + t.address
}

// Parse reads otlp://HOST[:PORT], or otlps:// for TLS, with ?service=, ?header= and ?tlsca= behind it. It reads the file
// with certificates that tlsca names.
func Parse(write string) (*Target, error) {
	u, err := url.Parse(write)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) { // with its text, the password would be shown
			err = bad.Err
		}
		return nil, fmt.Errorf("not an address such as otlp://localhost:4317: %w", err)
	}
	switch {
	case u.Hostname() == "":
		return nil, errors.New("no host: an address is like otlp://localhost:4317")
	case u.User != nil:
		return nil, errors.New("an address has no user: send credentials as ?header=Authorization=VALUE")
	case strings.Trim(u.Path, "/") != "" || u.Fragment != "":
		return nil, fmt.Errorf("an address ends with the port, for gRPC has no paths: write %s://%s", u.Scheme, u.Host)
	}
	t := &Target{address: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), defaultPort)), headers: map[string]string{}}
	if u.Scheme == "otlps" {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("what is behind the question mark: %w: write %% as %%25", err)
	}
	for name, values := range query {
		for _, value := range values {
			if err := t.set(name, value); err != nil {
				return nil, fmt.Errorf("?%s=: %w", name, err)
			}
		}
	}
	return t, nil
}

// set takes one of the parameters.
func (t *Target) set(name, value string) error {
	switch name {
	case "service":
		t.Service = value
	case "header":
		key, value, ok := strings.Cut(value, "=")
		if !ok || key == "" {
			return errors.New("a header is like ?header=X-Tenant=blue")
		}
		t.headers[strings.ToLower(key)] = value
	case "tlsca":
		if t.tls == nil {
			return errors.New("certificates are for TLS: write otlps://")
		}
		pem, err := os.ReadFile(value)
		if err != nil {
			return err
		}
		t.tls.RootCAs = x509.NewCertPool()
		if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s has no certificate in PEM's format", value)
		}
	default:
		return errors.New("there are ?service=, ?header= and ?tlsca=")
	}
	return nil
}
