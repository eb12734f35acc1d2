package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The diff that docs/migrating.md shows is all there is between channels.go and dropin.go, but for the function's name.
func TestDiff(t *testing.T) {
	_, rest, found := strings.Cut(code(t, "../../docs/migrating.md"), "```diff\n")
	require.True(t, found)
	diff, _, found := strings.Cut(rest, "```\n")
	require.True(t, found)

	before, after := code(t, "channels.go"), code(t, "dropin.go")
	before = strings.Replace(before, "// channels counts", "// dropin counts", 1)
	before = strings.Replace(before, "func channels(", "func dropin(", 1)
	changes := 0
	for line := range strings.Lines(diff) {
		switch line[0] {
		case '-':
			before = cut(t, before, line[1:])
			changes++
		case '+':
			after = cut(t, after, line[1:])
			changes++
		default:
			require.Contains(t, after, line[1:])
		}
	}
	require.Equal(t, before, after)
	require.Equal(t, 3, changes, "one line, and an import")
}

func code(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}

// cut leaves the only line of that kind out.
func cut(t *testing.T, text, line string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count("\n"+text, "\n"+line), "%q", line)
	return strings.Replace("\n"+text, "\n"+line, "\n", 1)[1:]
}

// So is the function that docs/migrating.md shows, in folds.go.
func TestFunction(t *testing.T) {
	_, rest, found := strings.Cut(code(t, "../../docs/migrating.md"), "```go\n\tcount := ")
	require.True(t, found)
	count, _, found := strings.Cut(rest, "```\n")
	require.True(t, found)
	require.Contains(t, code(t, "folds.go"), "\tcount := "+count)
}
