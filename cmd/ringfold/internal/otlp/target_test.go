package otlp

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for write, address := range map[string]string{
		"otlp://localhost":      "otlp://localhost:4317",
		"otlps://collector:443": "otlps://collector:443",
		"otlp://[::1]:4317/":    "otlp://[::1]:4317",
	} {
		to, err := Parse(write)
		require.NoError(t, err)
		require.Equal(t, address, to.String())
	}
	to, err := Parse("otlp://a?service=agent&header=X-Tenant=blue&header=Authorization=Bearer%20a=b")
	require.NoError(t, err)
	require.Equal(t, "agent", to.Service)
	require.Equal(t, map[string]string{"x-tenant": "blue", "authorization": "Bearer a=b"}, to.headers)
	require.Equal(t, "otlp://a:4317", to.String(), "no secrets")
}

func TestParseErrors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	for write, why := range map[string]string{
		"otlp://":                         "no host",
		"otlp://:4317":                    "no host",
		"otlp://a:b":                      "invalid port",
		"otlp://user:pass@a":              "an address has no user",
		"otlp://a/v1/logs":                "write otlp://a",
		"otlp://a?color=red":              "?color=: there are ?service=, ?header= and ?tlsca=",
		"otlp://a?header=x":               "a header is like ?header=X-Tenant=blue",
		"otlp://a?service=%zz":            "write % as %25",
		"otlp://a?tlsca=ca.pem":           "write otlps://",
		"otlps://a?tlsca=/does/not/exist": "no such file",
		"otlps://a?tlsca=" + empty:        "has no certificate",
	} {
		_, err := Parse(write)
		require.ErrorContains(t, err, why, write)
		require.NotContains(t, err.Error(), "pass@")
	}
}

func TestIs(t *testing.T) {
	for write, is := range map[string]bool{"otlp://a": true, "otlps://a": true, "otlp": false, "./otlp://a": false, "-": false} {
		require.Equal(t, is, Is(write), write)
	}
}
