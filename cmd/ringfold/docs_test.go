package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// commandLine is one of the tool's in a document, or in a command's own help.
var commandLine = regexp.MustCompile(`(?m)^ *(?:\$ )?(?:sudo )?(?:build/)?ringfold ([a-z][^\n]*)$`)

// page is a text with command lines: the code of a document, or the examples of a command's help.
type page struct{ name, text string }

func documents(t *testing.T) (all []page) {
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all = append(all, page{filepath.Base(file), code(string(text))})
	}
	return all
}

func help() (all []page) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Runnable() && cmd.Name() != "version" && cmd.HasParent() && !cmd.Hidden {
			all = append(all, page{cmd.CommandPath(), cmd.Example})
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root())
	return all
}

// The command lines in documents are some that the tool takes.
func TestCommandLinesInDocuments(t *testing.T) {
	seen := 0
	for _, page := range documents(t) {
		seen += takes(t, page)
	}
	require.Greater(t, seen, 30)
}

// So are those in the help of commands, of which each has some.
func TestCommandLinesInHelp(t *testing.T) {
	for _, page := range help() {
		require.NotZerof(t, takes(t, page), "%s --help has no example", page.name)
	}
}

// The help of commands has every flag once, and its headings in the same order.
func TestFlagsInHelp(t *testing.T) {
	order := []string{"Recording", "Maps and recordings", "Events", "Order", "Payloads", "Flight recorder", "Host", "Stream", "NATS servers", "Output", "Flags"}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		help := cmd.UsageString()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			require.Lenf(t, regexp.MustCompile(`(?m)^  (-.,|   ) --`+f.Name+` `).FindAllString(help, -1), 1, "%s --%s", cmd.CommandPath(), f.Name)
		})
		_, flags, _ := strings.Cut(help, cmd.Example)
		at := 0
		for _, heading := range regexp.MustCompile(`(?m)^(.*):\n  (?:-.,|   ) --`).FindAllStringSubmatch(flags, -1) {
			i := slices.Index(order[at:], heading[1])
			require.GreaterOrEqualf(t, i, 0, "%s: %s", cmd.CommandPath(), heading[1])
			at += i + 1
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root())
}

// takes checks all command lines of a page, and returns how many there are.
func takes(t *testing.T, p page) int {
	lines := commandLine.FindAllStringSubmatch(p.text, -1)
	for _, line := range lines {
		root := root()
		cmd, rest, err := root.Find(words(line[1]))
		require.NoErrorf(t, err, "%s: %s", p.name, line[0])
		require.NoErrorf(t, cmd.ParseFlags(rest), "%s: %s", p.name, line[0])
		require.NoErrorf(t, cmd.ValidateArgs(cmd.Flags().Args()), "%s: %s", p.name, line[0])
	}
	return len(lines)
}

// code is what a page has between ``` and in lines that are indented by four.
func code(page string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if fenced || strings.HasPrefix(line, "    ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// words are those of a shell's command line, up to a pipe, a redirection or a comment.
func words(line string) (all []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		var word string
		switch quote := line[0]; {
		case strings.ContainsRune("|>#&\\", rune(quote)):
			return all
		case quote == '\'' || quote == '"':
			word, line, _ = strings.Cut(line[1:], string(quote))
		default:
			end := strings.IndexAny(line, " ")
			if end < 0 {
				end = len(line)
			}
			word, line = line[:end], line[end:]
		}
		all = append(all, word)
	}
	return all
}
