package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kernel offers some helpers only to GPL programs. So BPF sources have two licenses, and state
// them for readers and for the kernel.
func TestLicensesOfBPFSources(t *testing.T) {
	identifier := regexp.MustCompile(`(?m)^(?://|/\*) SPDX-License-Identifier: (.*?)(?: \*/)?$`)
	section := regexp.MustCompile(`SEC\("license"\) = "(.*)"`)
	sources := 0
	for _, file := range bpfSources(t) {
		sources++
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := identifier.FindAllStringSubmatch(string(text), -1)
		require.Lenf(t, found, 1, "%s: one SPDX-License-Identifier", file)
		require.Equalf(t, "(GPL-2.0-only OR BSD-2-Clause)", found[0][1], "%s", file)
		if strings.HasSuffix(file, ".bpf.c") {
			kernel := section.FindStringSubmatch(string(text))
			require.NotNilf(t, kernel, "%s: no license for the kernel", file)
			require.Equalf(t, "Dual BSD/GPL", kernel[1], "%s", file)
		}
	}
	require.Greater(t, sources, 10)
}

// These licenses are here, under their SPDX names. LICENSE covers all the rest.
func TestLicenseTexts(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, read("LICENSE"), read("LICENSES/BSD-2-Clause.txt"))
	require.Contains(t, read("LICENSES/GPL-2.0-only.txt"), "GNU GENERAL PUBLIC LICENSE\n                       Version 2, June 1991")
}

// bpfSources lists BPF programs and the headers for them.
func bpfSources(t *testing.T) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case rel == ".git" || rel == "build" || rel == "libbpf":
			if d.IsDir() {
				return filepath.SkipDir
			}
		case strings.HasSuffix(path, ".bpf.c"), filepath.Dir(rel) == "bpf":
			files = append(files, path)
		}
		return nil
	}))
	return files
}
