package main

import (
	"fmt"
	"slices"
	"time"
)

// delay measures how long events take to the user's function while they flow, what reading them costs, and how many
// come after a later one: of ordered streams, exact with each way to wait for a grace period and by slack, and
// of readers without order. A case compares readers that promise the same; ringfold is the default in each.
// Another process outputs.
func delay(r *run) error {
	streams, unordered := orderNames(), []string{ringfold, ringfoldPoll1, ringfoldPoll02, ringfoldEveryEvent, cilium, libbpfC}
	rounds, scale := 3, 1.0
	if r.quick {
		rounds, scale = 1, 0.1
	}
	all, closeAll, err := loadAll(slices.Concat(streams, unordered), options{ringBytes: 1 << 20, timed: true})
	if err != nil {
		return err
	}
	defer closeAll()
	for _, load := range []struct {
		name  string
		rate  int
		lasts time.Duration
	}{
		{"100/s", 100, 1200 * time.Millisecond}, // as many events as a p99 takes
		{"10k/s", 10_000, 400 * time.Millisecond},
		{"100k/s", 100_000, 400 * time.Millisecond},
	} {
		lasts := time.Duration(float64(load.lasts) * scale)
		delays, cost, overtaken := samples{}, samples{}, samples{}
		for round := range rounds {
			for _, o := range rotated(all, round) {
				seen, err := o.watch(flow{CPUs: cpus, Size: 56, Rate: load.rate}, true, lasts)
				if err != nil {
					return fmt.Errorf("%s at %s: %w", o.name, load.name, err)
				}
				for _, d := range seen.delays {
					delays.add(o.name, float64(d)/1000)
				}
				cost.add(o.name, seen.cpu*seen.wall/float64(seen.window.attempted-seen.window.failed)*1e6)
				overtaken.add(o.name, float64(seen.overtaken)/float64(max(len(seen.delays), 1)))
			}
		}
		for _, kind := range []struct {
			name    string
			readers []string
		}{{"ordered", streams}, {"unordered", unordered}} {
			add := func(name, unit string, values map[string]figure) {
				if kind.name == "ordered" {
					values[ringfold] = values[ringfoldExact]
				}
				r.add(load.name+name, unit+" "+kind.name, values, shown(kind.readers)...)
			}
			add(" p50", "us", delays.medians())
			add(" p99", "us", delays.quantiles(0.99))
			add("", "s/Mevent", cost.medians())
			add("", "share", overtaken.quantiles(1)) // the worst round
		}
	}
	return nil
}

// shown are readers' names in results: the default of ordered streams is ringfold, to which others are compared.
func shown(readers []string) (names []string) {
	for _, name := range readers {
		if name == ringfoldExact {
			name = ringfold
		}
		names = append(names, name)
	}
	return names
}
