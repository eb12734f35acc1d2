package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"
)

// GitHub's files are YAML with the keys that GitHub requires. GitHub silently hides an invalid
// form. Workflows have their own linter, in `make lint`.
func TestGitHubFiles(t *testing.T) {
	wanted := map[string][]string{
		"dependabot.yml": {"version", "updates"},
		"ISSUE_TEMPLATE": {"name", "description", "body"},
		"workflows":      {"name", "jobs", "permissions"},
	}
	files := 0
	github := filepath.Join(root, ".github")
	require.NoError(t, filepath.WalkDir(github, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yml") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var contents map[string]any
		require.NoErrorf(t, yaml.Unmarshal(text, &contents), "%s", path)
		rel, err := filepath.Rel(github, path)
		require.NoError(t, err)
		keys, known := wanted[strings.Split(filepath.ToSlash(rel), "/")[0]]
		require.Truef(t, known, "%s: GitHub does not look here", path)
		if filepath.Base(path) == "config.yml" {
			keys = []string{"contact_links"}
		}
		for _, key := range keys {
			require.Containsf(t, contents, key, "%s", path)
		}
		if strings.HasPrefix(rel, "ISSUE_TEMPLATE") {
			checkForm(t, path, contents["body"])
		}
		return nil
	}))
	require.GreaterOrEqual(t, files, 6)
}

// checkForm checks a form for faults that GitHub refuses: fields without a label, or with an id
// twice.
func checkForm(t *testing.T, path string, body any) {
	fields, _ := body.([]any)
	ids := map[any]bool{}
	for _, f := range fields {
		field, ok := f.(map[string]any)
		require.Truef(t, ok, "%s: %v", path, f)
		require.Containsf(t, []any{"textarea", "input", "dropdown", "checkboxes", "markdown"}, field["type"], "%s", path)
		attributes, _ := field["attributes"].(map[string]any)
		if field["type"] == "markdown" {
			require.NotEmptyf(t, attributes["value"], "%s", path)
			continue
		}
		require.NotEmptyf(t, attributes["label"], "%s: %v has no label", path, field["id"])
		require.Falsef(t, ids[field["id"]], "%s: id %v twice", path, field["id"])
		ids[field["id"]] = true
	}
}
