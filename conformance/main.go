// Command conformance runs scenarios on the real kernel against readers of perf event arrays and BPF ring buffers: see PROTOCOL.md.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ringfold/ringfold/conformance/suite"
)

func main() {
	readers := flag.String("readers", "ringfold", "adapters to run, separated by commas: names, or paths")
	scenarios := flag.String("scenarios", "", "scenarios or groups of them, separated by commas (default all)")
	adapters := flag.String("adapters", "build/conformance", "where adapters are that have names")
	out := flag.String("out", "build/conformance.json", "where results go; those of other readers and scenarios stay there")
	patience := flag.Duration("patience", 10*time.Second, "how long nothing may happen before that is a hang")
	short := flag.Bool("short", false, "shorter loads")
	flag.BoolVar(&suite.Hotplug, "hotplug", false, "take CPUs offline and back, on a machine that nobody else uses")
	flag.Float64Var(&suite.IdleShare, "idle", suite.IdleShare, "share of a CPU that an idle reader may take")
	list := flag.Bool("list", false, "list the scenarios")
	explain := flag.String("explain", "", "print the pages of scenarios or groups")
	docs := flag.String("docs", "", "write results as a table to this file, instead of running")
	flag.Parse()
	all, err := suite.All()
	if err == nil {
		switch {
		case *explain != "":
			err = printPages(all, *explain)
		case *list:
			for _, s := range all {
				fmt.Printf("%-32s %s\n", s.Name, s.Title())
			}
		case *docs != "":
			err = writeDocs(*out, *docs, all)
		default:
			err = run(all, *readers, *scenarios, *adapters, *out, suite.Options{Patience: *patience, Short: *short})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func printPages(all []suite.Scenario, list string) error {
	selected, err := suite.Select(all, list)
	for _, s := range selected {
		fmt.Printf("%s\n\n%s\n\n", s.Name, s.Page)
	}
	return err
}

// run runs scenarios with readers. It is an error if ringfold, or a reader given by its path, fails one.
func run(all []suite.Scenario, readers, list, adapters, out string, o suite.Options) error {
	selected, err := suite.Select(all, list)
	if err != nil {
		return err
	}
	if err := suite.Probe(); err != nil {
		return err
	}
	results, err := load(out)
	if err != nil {
		return err
	}
	var totals []string
	failed := 0
	for name := range strings.SplitSeq(readers, ",") {
		r, err := suite.Find(name, adapters)
		if err != nil {
			return err
		}
		done := runReader(r, selected, o)
		results.add(r, done)
		passed, bad, cannot := count(done)
		line, _ := json.Marshal(struct {
			Reader string `json:"reader"`
			Passed int    `json:"passed"`
			Failed int    `json:"failed"`
			Cannot int    `json:"cannot"`
		}{r.Name, passed, bad, cannot})
		totals = append(totals, string(line))
		if strings.HasPrefix(r.Name, "ringfold") || strings.Contains(name, "/") {
			failed += bad
		}
		if err := results.save(out); err != nil {
			return err
		}
	}
	fmt.Println(strings.Join(totals, "\n"))
	if failed > 0 {
		return fmt.Errorf("%d scenarios failed", failed)
	}
	return nil
}

func runReader(r suite.Reader, selected []suite.Scenario, o suite.Options) (done []suite.Result) {
	for _, s := range selected {
		result := suite.Run(s, r, o)
		done = append(done, result)
		text := ""
		if result.Text != "" {
			text = ": " + result.Text
		}
		fmt.Printf("%-7s %s %s (%.2fs)%s\n", result.Outcome, r.Name, s.Name, result.Seconds, text)
		if result.Outcome == suite.Failed {
			for line := range strings.Lines(result.Log) {
				fmt.Printf("        | %s", strings.TrimRight(line, "\n")+"\n")
			}
		}
	}
	return done
}

func count(results []suite.Result) (passed, failed, cannot int) {
	for _, r := range results {
		switch r.Outcome {
		case suite.Passed:
			passed++
		case suite.Failed:
			failed++
		default:
			cannot++
		}
	}
	return passed, failed, cannot
}
