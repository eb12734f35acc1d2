//go:build linux && cgo && !perfbuf_nolibbpf

package libbpf_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	v, err := libbpf.Version()
	require.NoError(t, err)
	t.Logf("%+v", v)
	for _, s := range []string{v.Version, v.Headers} {
		var major, minor int
		_, err := fmt.Sscanf(s, "v%d.%d", &major, &minor)
		require.NoError(t, err, s)
		require.GreaterOrEqual(t, major, 1)
	}
	if v.Static {
		require.Empty(t, v.Path)
		require.Equal(t, v.Headers, v.Version)
		return
	}
	if v.Path != "" { // or it is libbpf.a, in a program that is dynamic otherwise: so is the submodule's
		require.FileExists(t, v.Path)
		require.Contains(t, filepath.Base(v.Path), "libbpf.so")
	}
}

// Against a libbpf that is too old, or none, the build says what is needed.
func TestOldHeaders(t *testing.T) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	preprocess := func(t *testing.T, headers map[string]string) (string, error) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "bpf"), 0o755))
		for name, text := range headers {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "bpf", name), []byte(text), 0o644))
		}
		// -nostdinc: only these headers, not those that are installed.
		out, err := exec.Command(cc, "-nostdinc", "-E", "-I", dir, "libbpf.h").CombinedOutput()
		return string(out), err
	}
	version := func(major, minor int) string {
		return fmt.Sprintf("#define LIBBPF_MAJOR_VERSION %d\n#define LIBBPF_MINOR_VERSION %d\n", major, minor)
	}

	out, err := preprocess(t, map[string]string{"bpf.h": "", "libbpf.h": "", "libbpf_version.h": version(0, 8)})
	require.Error(t, err)
	require.Contains(t, out, "ringfold needs libbpf 1.0 or newer (perf_buffer__buffer appeared there): install a newer libbpf-dev")

	out, err = preprocess(t, map[string]string{"bpf.h": "", "libbpf.h": ""}) // as libbpf 0.5 is
	require.Error(t, err)
	require.Contains(t, out, "ringfold needs libbpf 1.0 or newer, but its headers were not found or are older: install libbpf-dev")

	out, err = preprocess(t, map[string]string{"bpf.h": "", "libbpf.h": "", "libbpf_version.h": version(1, 0)})
	require.NoError(t, err, out)
}
