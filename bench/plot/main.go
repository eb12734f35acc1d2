// Command plot renders docs/benchmarks.md and its plots from what `make bench` wrote, on the machine
// that measured.
//
//	make bench-docs
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	in := flag.String("in", "build/bench.json", "the figures")
	binary := flag.String("binary", "build/bench", "the program that measured: it knows the versions of what it measured")
	out := flag.String("out", "docs", "directory for benchmarks.md and bench-*.svg")
	flag.Parse()
	if err := render(*in, *binary, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench/plot:", err)
		os.Exit(1)
	}
}

// result is one figure of bench.json.
type result struct {
	Bench  string  `json:"bench"`
	Case   string  `json:"case"`
	Reader string  `json:"reader"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`  // quartiles of the samples that Value is the median of
	High   float64 `json:"high"` // 0 if there are none
	Ratio  float64 `json:"ratio_to_ringfold"`
}

func render(in, binary, out string) error {
	b, err := os.ReadFile(in)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: run `make bench` first", err)
	} else if err != nil {
		return err
	}
	info, err := os.Stat(in)
	if err != nil {
		return err
	}
	var results []result
	if err := json.Unmarshal(b, &results); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	if len(results) == 0 {
		return fmt.Errorf("%s holds no results: run `make bench`", in)
	}
	all := group(results)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	text := document(all, machine(binary, info.ModTime().Format(time.DateOnly)))
	if err := os.WriteFile(filepath.Join(out, "benchmarks.md"), []byte(text), 0o644); err != nil {
		return err
	}
	for _, b := range all {
		var charts []chart
		for _, p := range b.panels {
			charts = append(charts, p.charts()...)
		}
		drawing := stacked(explanations[b.name].title, charts)
		if err := os.WriteFile(filepath.Join(out, plotName(b.name)), []byte(drawing), 0o644); err != nil {
			return err
		}
	}
	if drawing, ok := headline(all); ok {
		return os.WriteFile(filepath.Join(out, plotName("headline")), []byte(drawing), 0o644)
	}
	fmt.Fprintln(os.Stderr, "bench/plot: the README's plot stays as it is: it takes drain, delay, cpu and overload")
	return nil
}

func plotName(bench string) string { return "bench-" + strings.ReplaceAll(bench, " ", "-") + ".svg" }
