// Command bench measures ringfold against the other readers of perf event arrays, side by side in
// one process, and writes what it found to build/bench.json.
//
//	make bench                      # all, some minutes; root
//	make bench BENCH=drain,ordered  # these
//
// aya is among them where scripts/aya.sh can build it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// benchmark is one of the things that are measured.
type benchmark struct {
	name string
	run  func(r *run) error
}

var benchmarks = []benchmark{
	{"drain", drain},
	{"ringbuf", ringBuf},
	{"producer", producer},
	{"producers", producers},
	{"first-event", firstEvent},
	{"delay", delay},
	{"harm", harm},
	{"cpu", cpu},
	{"overload", overload},
	{"lanes", lanes},
	{"drop-in", dropIn},
	{"ordered", ordered},
	{"sources", sources},
	{"skew", skew},
	{"memory", memory},
}

func main() {
	var names []string
	for _, b := range benchmarks {
		names = append(names, b.name)
	}
	only := flag.String("bench", "", "which, separated by commas: "+strings.Join(names, ", ")+" (default all)")
	quick := flag.Bool("quick", false, "once and briefly, to see that everything runs: the figures mean nothing")
	out := flag.String("out", "build/bench.json", "where the results go; those of other benchmarks stay in it")
	flag.Parse()
	selected := names
	if *only != "" {
		selected = strings.Split(*only, ",")
	}
	for _, name := range selected {
		if !slices.Contains(names, name) {
			fmt.Fprintf(os.Stderr, "bench: there is no %q: there are %s\n", name, strings.Join(names, ", "))
			os.Exit(2)
		}
	}
	if err := runAll(selected, *quick, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// ayaLibrary is set by the linker: the version of aya in the static library, and the checksum of that, as Go's build cache does not look at it.
var ayaLibrary string

func runAll(selected []string, quick bool, out string) error {
	if withAya {
		fmt.Fprintln(os.Stderr, "bench: with aya", ayaLibrary)
	} else {
		fmt.Fprintln(os.Stderr, "bench: without aya, which takes cargo: see scripts/aya.sh")
	}
	r := &run{quick: quick}
	for _, b := range benchmarks {
		if !slices.Contains(selected, b.name) {
			continue
		}
		begin := time.Now()
		r.bench = b.name
		if err := b.run(r); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %.0f s\n", b.name, time.Since(begin).Seconds())
	}
	printTable(os.Stdout, r.results)
	// Results of benchmarks that did not run this time stay.
	if old, err := os.ReadFile(out); err == nil {
		var before []result
		if err := json.Unmarshal(old, &before); err != nil {
			return fmt.Errorf("%s: %w", out, err)
		}
		for _, b := range before {
			if !slices.Contains(selected, b.Bench) {
				r.results = append(r.results, b)
			}
		}
	}
	b, err := json.MarshalIndent(r.results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(b, '\n'), 0o644)
}
