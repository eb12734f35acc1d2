package main

import (
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
)

// Each benchmark runs, briefly, and has a figure in every case for what others are compared to.
func TestQuick(t *testing.T) {
	kerneltest.Require(t)
	for _, b := range benchmarks {
		switch b.name {
		case "ordered", "skew":
			continue // have tests of their own
		}
		t.Run(b.name, func(t *testing.T) {
			r := &run{quick: true, bench: b.name}
			if err := b.run(r); err != nil {
				t.Fatal(err)
			}
			base := ringfold
			if b.name == "harm" {
				base = noBarriers
			}
			own := map[string]bool{}
			for _, res := range r.results {
				own[res.Case] = own[res.Case] || res.Reader == base
			}
			if len(own) == 0 {
				t.Error("no results")
			}
			for c, found := range own {
				if !found {
					t.Errorf("%s: no figure for %s", c, base)
				}
			}
		})
	}
}

func TestStats(t *testing.T) {
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("the median of 1, 2, 3 is %v", m)
	}
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i))
	}
	if p := percentile(hundred, 0.99); p != 99 {
		t.Errorf("the 99th percentile of 0 to 99 is %v", p)
	}
}
