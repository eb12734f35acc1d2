package main

import (
	"fmt"
	"strings"
)

const preamble = `# Benchmarks

Written by ` + "`make bench-docs`" + ` from what ` + "`make bench`" + ` measured: ringfold and the other readers of perf event arrays side by side, in one process,
on the same events, taking turns. Figures are medians; in parentheses is how many times ringfold's figure that is. They are of this machine and
hold for no other, while ratios differ less; a virtual machine, or one that does other things, adds noise.
Axes are linear and begin at 0. A thin line goes from the first to the third quartile of what the median is of. A bar with a gap is longer than drawn.

`

// document is the whole of benchmarks.md.
func document(all []bench, machine []fact) string {
	var b strings.Builder
	b.WriteString(preamble)
	b.WriteString("| | |\n|---|---|\n")
	for _, f := range machine {
		fmt.Fprintf(&b, "| %s | %s |\n", f.name, f.value)
	}
	for _, bench := range all {
		section(&b, bench)
	}
	return b.String()
}

func section(b *strings.Builder, bench bench) {
	text, ok := explanations[bench.name]
	if !ok {
		text = explanation{title: bench.name}
	}
	fmt.Fprintf(b, "\n## %s\n\n", text.title)
	if text.body != "" {
		fmt.Fprintf(b, "%s\n\n", text.body)
	}
	fmt.Fprintf(b, "![%s](%s)\n", text.title, plotName(bench.name))
	for _, p := range bench.panels {
		b.WriteString("\n")
		table(b, p)
	}
	lost, own := losses(bench)
	if !bench.compares() {
		return
	}
	if len(lost) == 0 {
		b.WriteString("\nringfold loses nowhere here.\n")
	} else {
		fmt.Fprintf(b, "\n**ringfold loses here:**\n\n%s", strings.Join(lost, ""))
	}
	if len(own) > 0 {
		fmt.Fprintf(b, "\nIts own variants do better than its default here:\n\n%s", strings.Join(own, ""))
	}
}

func table(b *strings.Builder, p panel) {
	readers := p.readers()
	fmt.Fprintf(b, "| %s (%s) | %s |\n|---|%s\n", p.title, p.goal, strings.Join(readers, " | "), strings.Repeat("--:|", len(readers)))
	for _, c := range p.cases {
		cells := []string{c.name}
		for _, reader := range readers {
			r, ok := c.of(reader)
			if !ok {
				cells = append(cells, "")
				continue
			}
			cells = append(cells, caption(r))
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

// losses lists, as items, where another reader has a better figure than ringfold, and where ringfold has in
// another setting.
func losses(bench bench) (lost, own []string) {
	for _, p := range bench.panels {
		for _, c := range p.cases {
			base, ok := c.of(ringfold)
			if !ok {
				continue
			}
			var peers, variants []string
			for _, r := range c.results {
				if r.Reader == unordered || !p.better(r.Value, base.Value) {
					continue
				}
				s := fmt.Sprintf("%s has %s", r.Reader, caption(r))
				if ours(r.Reader) {
					variants = append(variants, s)
				} else {
					peers = append(peers, s)
				}
			}
			item := fmt.Sprintf("- %s: it has %s (%s), ", c.name, number(base.Value), p.title)
			if len(peers) > 0 {
				lost = append(lost, item+strings.Join(peers, ", ")+"\n")
			}
			if len(variants) > 0 {
				own = append(own, item+strings.Join(variants, ", ")+"\n")
			}
		}
	}
	return lost, own
}
