//go:build linux && cgo && !perfbuf_nolibbpf

package libbpf_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is linked comes from pkg-config alone. A libelf that uses zstd, as those of newer
// distributions do, has it linked in a static program, and elsewhere loads it by itself.
func TestLinkFlags(t *testing.T) {
	for _, tool := range []string{"go", "pkg-config"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err) // the test has been carried to another machine
		}
	}
	list := func(tags string) string {
		out, err := exec.Command("go", "list", "-tags", tags, "-f", "{{.CgoPkgConfig}} {{.CgoLDFLAGS}}", ".").Output()
		require.NoError(t, err)
		return string(out)
	}
	require.Equal(t, "[libbpf] []\n", list(""))
	require.Equal(t, "[--static libbpf] [-static]\n", list("static_build"))

	dir := t.TempDir()
	for name, text := range map[string]string{
		"libelf.pc":  "Name: libelf\nDescription: fake\nVersion: 0.192\nLibs: -lelf\nRequires.private: zlib libzstd\n",
		"libzstd.pc": "Name: libzstd\nDescription: fake\nVersion: 1.5\nLibs: -lzstd\n",
		"zlib.pc":    "Name: zlib\nDescription: fake\nVersion: 1.3\nLibs: -lz\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	libs := func(flags ...string) string {
		cmd := exec.Command("pkg-config", append(flags, "--libs", "libbpf")...)
		cmd.Env = append(os.Environ(), "PKG_CONFIG_PATH="+dir+":"+os.Getenv("PKG_CONFIG_PATH"))
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	require.Regexp(t, "-lbpf.* -lelf.* -lzstd", libs("--static"))
	require.NotContains(t, libs(), "-lzstd")
}
