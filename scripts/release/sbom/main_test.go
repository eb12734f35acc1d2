package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func released() *debug.BuildInfo {
	return &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Path:      "example.org/tool/cmd/tool",
		Main:      debug.Module{Path: "example.org/tool", Version: "v0.1.0", Sum: "h1:AAECAw=="},
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v1.2.3", Sum: "h1:AAECAw=="},
			{Path: "example.org/b", Version: "v2.0.0+incompatible"},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}},
	}
}

func TestDescribe(t *testing.T) {
	b, err := describe(released())
	require.NoError(t, err)
	require.Equal(t, "tool", b.Metadata.Component.Name)
	require.Equal(t, "pkg:golang/example.org/tool@v0.1.0?goos=linux&goarch=arm64#cmd/tool", b.Metadata.Component.PURL)
	var purls []string
	for _, c := range b.Components {
		purls = append(purls, c.PURL)
	}
	require.Equal(t, []string{
		"pkg:golang/example.org/a@v1.2.3", "pkg:golang/example.org/b@v2.0.0%2Bincompatible",
		"pkg:golang/std@1.26.8",
	}, purls)
	require.Equal(t, purls, b.Dependencies[0].DependsOn)
	require.Equal(t, []hash{{"SHA-256", "00010203"}}, b.Components[0].Hashes)
}

func TestDescribeRefusesWhatHasNoVersion(t *testing.T) {
	info := released()
	info.Deps[0].Replace = &debug.Module{Path: "../a"}
	_, err := describe(info)
	require.ErrorContains(t, err, "example.org/a is replaced by ../a")
	info = released()
	info.Main.Version = "(devel)"
	_, err = describe(info)
	require.ErrorContains(t, err, "example.org/tool has no version")
}

// A program that was built from a directory has no SBOM: nobody could tell what it consists of.
func TestRunRefusesWhatIsBuiltFromADirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org/tool\n\ngo 1.26.0\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
	program := filepath.Join(dir, "tool")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)

	var b bytes.Buffer
	require.ErrorContains(t, run(&b, program, ""), "example.org/tool has no version")
	require.Empty(t, b.String())
}

func TestSerial(t *testing.T) {
	one, other := serial([32]byte{1}), serial([32]byte{2})
	require.NotEqual(t, one, other)
	require.Regexp(t, regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`), one)
}

func TestJSON(t *testing.T) {
	b, err := describe(released())
	require.NoError(t, err)
	out, err := json.Marshal(b)
	require.NoError(t, err)
	require.Contains(t, string(out), `{"bomFormat":"CycloneDX","specVersion":"1.6",`)
	require.NotContains(t, string(out), "timestamp", "none is made up")
}
