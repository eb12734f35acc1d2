package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/ringfold/ringfold/conformance/suite"
)

// writeDocs renders results as docs/conformance.md.
func writeDocs(from, to string, all []suite.Scenario) error {
	r, err := read(from)
	if err != nil {
		return fmt.Errorf("no results yet (make conformance READERS=all): %w", err)
	}
	return os.WriteFile(to, []byte(r.document(all)), 0o644)
}

const intro = `# Conformance

<!-- Written by make conformance-docs. -->

What users of any reader of perf event arrays need, as scenarios on the real kernel: order, conservation, overload, delivery and life.
Each reader runs in a process of its own and is observed from outside, by the [adapter protocol](../conformance/PROTOCOL.md). *Cannot*
means that a library's API has no way to express the scenario. It is not a failure.

Run it yourself, or against your own reader, with an adapter of about 100 lines:

    make conformance READERS=all
    make conformance READERS=./path/to/adapter
    build/conformance/suite -explain life/close-under-load   # what is expected, why, how it is checked, and known issues

A release has the suite as an archive: ` + "`./conformance -readers ./path/to/adapter`" + ` runs it without a checkout.

`

func (r *results) document(all []suite.Scenario) string {
	var b strings.Builder
	b.WriteString(intro)
	fmt.Fprintf(&b, "These results are from Linux %s, CPUs %s.\n\n| reader | version | passed | failed | cannot |\n|---|---|--:|--:|--:|\n", r.Kernel, r.CPUs)
	for _, c := range r.Readers {
		passed, failed, cannot := count(c.Scenarios)
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", c.Reader, strings.ReplaceAll(c.Version, ",", ", "), passed, failed, cannot)
	}
	group := ""
	for _, s := range all {
		g, name, _ := strings.Cut(s.Name, "/")
		if g != group {
			group = g
			fmt.Fprintf(&b, "\n## %s%s\n\n| scenario |", strings.ToUpper(g[:1]), g[1:])
			for _, c := range r.Readers {
				fmt.Fprintf(&b, " %s |", c.Reader)
			}
			b.WriteString("\n|---|" + strings.Repeat("---|", len(r.Readers)) + "\n")
		}
		fmt.Fprintf(&b, "| **%s**<br>%s |", name, s.Title())
		for _, c := range r.Readers {
			fmt.Fprintf(&b, " %s |", c.cell(s.Name))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cell is what came of a scenario, for the table.
func (c *column) cell(scenario string) string {
	for _, r := range c.Scenarios {
		if r.Scenario != scenario {
			continue
		}
		text := strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(r.Text)
		switch {
		case r.Outcome == suite.Failed:
			return "**failed**: " + text
		case text != "":
			return string(r.Outcome) + ": " + text
		}
		return string(r.Outcome)
	}
	return "not run"
}
