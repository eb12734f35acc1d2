package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documents are README and all pages in docs.
func documents(t *testing.T) map[string]string {
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	require.NoError(t, err)
	all := map[string]string{}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		all[page] = string(text)
	}
	return all
}

// Go in documents is part of a compiled file, in any indentation. "..." stands for lines left out.
// A block that begins in a later line than another of its page may continue it.
func TestGoInDocuments(t *testing.T) {
	var sources []string
	for _, file := range goFiles(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		sources = append(sources, flat(string(text)))
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```")
	for page, text := range documents(t) {
		for _, found := range block.FindAllStringSubmatch(text, -1) {
			for _, part := range strings.Split(flat(found[1]), "\n...") {
				if !inOne(sources, part) {
					t.Errorf("%s: no file has this, so nothing compiles it:\n%s", page, part)
				}
			}
		}
	}
}

// flat is text without indentation, empty lines and comments at the end.
func flat(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return "\n" + strings.Join(lines, "\n")
}

func inOne(sources []string, part string) bool {
	part = strings.TrimSuffix(part, "\n")
	for _, s := range sources {
		if strings.Contains(s+"\n", part+"\n") {
			return true
		}
	}
	return false
}

// Links within the project lead somewhere, headings too.
func TestLinksInDocuments(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for page, text := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target, heading, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := filepath.Join(filepath.Dir(page), target)
			if target == "" {
				file = page
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s is not there", page, target)
				continue
			}
			if heading != "" && strings.HasSuffix(file, ".md") && !hasHeading(t, file, heading) {
				t.Errorf("%s: %s has no heading #%s", page, target, heading)
			}
		}
	}
}

// hasHeading reports whether a page has the heading that a link calls so.
func hasHeading(t *testing.T, file, anchor string) bool {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		slug := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		slug = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(slug, "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// README is a page that one reads in two minutes.
func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 130)
}

// make targets that documents mention exist.
func TestMakeInDocuments(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[found[1]] = true
	}
	all := documents(t)
	for _, page := range []string{"CONTRIBUTING.md", "CHANGELOG.md", "conformance/PROTOCOL.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		all[page] = string(text)
	}
	seen := 0
	for page, text := range all {
		for _, found := range regexp.MustCompile("(?m)(?:`|^ +|^)make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
			require.True(t, targets[found[1]], "%s: make %s", page, found[1])
			seen++
		}
	}
	require.Greater(t, seen, 30)
}
