package perfbuf

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionString(t *testing.T) {
	for want, v := range map[string]VersionInfo{
		"ringfold v1.2.3, without libbpf":                                       {Ringfold: "v1.2.3"},
		"ringfold v1.2.3, libbpf v1.5 (static)":                                 {Ringfold: "v1.2.3", Libbpf: "v1.5", Headers: "v1.5", Static: true},
		"ringfold v1.2.3, libbpf v1.5":                                          {Ringfold: "v1.2.3", Libbpf: "v1.5", Headers: "v1.5"},
		"ringfold (devel), libbpf v1.5 (/lib/libbpf.so.1)":                      {Ringfold: "(devel)", Libbpf: "v1.5", Headers: "v1.5", Path: "/lib/libbpf.so.1"},
		"ringfold (devel), libbpf v1.5 (/lib/l.so, built with headers of v1.1)": {Ringfold: "(devel)", Libbpf: "v1.5", Headers: "v1.1", Path: "/lib/l.so"},
		"ringfold (devel), libbpf v1.5 (built with headers of v1.1)":            {Ringfold: "(devel)", Libbpf: "v1.5", Headers: "v1.1"},
	} {
		require.Equal(t, want, v.String())
	}
}

// What is in use is what pkg-config names, if it knows libbpf at all.
func TestVersion(t *testing.T) {
	v := Version()
	t.Log(v)
	if v.Libbpf == "" {
		return // built without cgo
	}
	require.Equal(t, v.Libbpf, v.Headers, "the library and the headers are of one installation here")
	require.False(t, v.Static && v.Path != "")
	if out, err := exec.Command("pkg-config", "--modversion", "libbpf").Output(); err == nil {
		require.Contains(t, string(out), v.Libbpf[1:]+".")
	}
}
