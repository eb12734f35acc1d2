package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pack makes everything of made-up archives, and returns the files' contents by their names.
func pack(t *testing.T) map[string]string {
	t.Helper()
	ours = "../systemd"
	work, out := t.TempDir(), t.TempDir()
	var directories []string
	for _, arch := range []string{"amd64", "arm64"} {
		directories = append(directories, filepath.Join(work, "ringfold-v0.1.0-rc.1-linux-"+arch))
		for _, name := range []string{
			"ringfold", "CHANGELOG.md", "LICENSE", "LICENSES/linked/go/LICENSE", "SECURITY.md", "man/ringfold.1",
			"completion/bash", "completion/zsh", "completion/fish",
		} {
			file := filepath.Join(directories[len(directories)-1], name)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(t, os.WriteFile(file, []byte(arch+" "+name), 0o600))
		}
	}
	require.NoError(t, run("v0.1.0-rc.1", out, directories, "1700000000"))
	made := map[string]string{}
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(out, e.Name()))
		require.NoError(t, err)
		made[e.Name()] = string(b)
	}
	return made
}

func TestReproducible(t *testing.T) {
	made := pack(t)
	var names []string
	for name := range made {
		names = append(names, name)
	}
	require.ElementsMatch(t, []string{
		"ringfold-v0.1.0-rc.1.oci.tar",
		"ringfold_0.1.0~rc.1_amd64.deb", "ringfold_0.1.0~rc.1_arm64.deb",
		"ringfold-0.1.0~rc.1-1.x86_64.rpm", "ringfold-0.1.0~rc.1-1.aarch64.rpm",
	}, names)
	for name, contents := range pack(t) {
		require.Truef(t, made[name] == contents, "%s differs", name)
	}
}

// Each descriptor leads to a blob with its digest and size, from the index down to the layer's files.
func TestImage(t *testing.T) {
	members := untar(t, strings.NewReader(pack(t)["ringfold-v0.1.0-rc.1.oci.tar"]))
	require.JSONEq(t, `{"imageLayoutVersion": "1.0.0"}`, members["oci-layout"])
	blob := func(d descriptor) string {
		b, there := members["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		require.True(t, there, d)
		require.Equal(t, d.Digest, digest([]byte(b)))
		require.Equal(t, d.Size, len(b))
		return b
	}
	var top, all index
	require.NoError(t, json.Unmarshal([]byte(members["index.json"]), &top))
	require.Len(t, top.Manifests, 1)
	require.NoError(t, json.Unmarshal([]byte(blob(top.Manifests[0])), &all))
	require.Len(t, all.Manifests, 2)
	for _, d := range all.Manifests {
		var m manifest
		var c config
		require.NoError(t, json.Unmarshal([]byte(blob(d)), &m))
		require.NoError(t, json.Unmarshal([]byte(blob(m.Config)), &c))
		require.Equal(t, *d.Platform, c.platform)
		layer, err := gzip.NewReader(strings.NewReader(blob(m.Layers[0])))
		require.NoError(t, err)
		text, err := io.ReadAll(layer)
		require.NoError(t, err)
		require.Equal(t, []string{digest(text)}, c.RootFS.DiffIDs)
		files := untar(t, strings.NewReader(string(text)))
		require.Equal(t, c.Architecture+" ringfold", files[strings.TrimPrefix(c.Config.Entrypoint[0], "/")])
		require.Contains(t, files, "usr/share/doc/ringfold/LICENSES/linked/go/LICENSE")
	}
}

func untar(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	members := map[string]string{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return members
		}
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		members[h.Name] = string(b)
	}
}

func TestRefusals(t *testing.T) {
	require.ErrorContains(t, run("v0.1.0", t.TempDir(), nil, ""), "SOURCE_DATE_EPOCH")
	require.ErrorContains(t, run("v0.1.0", t.TempDir(), []string{t.TempDir() + "/ringfold-amd64"}, "1"), "CHANGELOG.md")
}
