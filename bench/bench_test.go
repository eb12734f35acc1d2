package main

import (
	"strings"
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
			switch b.name {
			case "harm":
				base = noBarriers
			case "drop-in":
				base = ringfoldChannels
			case "lanes":
				base = ringfoldLanes
			case "producers":
				base = perfArray
			}
			own, spread := map[string]bool{}, false
			for _, res := range r.results {
				own[res.Case] = own[res.Case] || res.Reader == base
				if res.High != 0 && (res.Low > res.Value || res.Value > res.High) {
					t.Errorf("a median outside its quartiles: %+v", res)
				}
				spread = spread || res.High != 0
			}
			if len(own) == 0 {
				t.Error("no results")
			}
			if !spread {
				t.Error("no figure has quartiles")
			}
			for c, found := range own {
				// On a machine that is busy enough, no event of a fast flow has come in time.
				if delay := strings.HasSuffix(c, " p50") || strings.HasSuffix(c, " p99"); !found && !delay {
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
	if f := (samples{"r": {4, 8, 1, 3, 2, 7, 6, 5}}).medians()["r"]; f != (figure{4.5, 2, 6}) {
		t.Errorf("1 to 8 come to %v", f)
	}
}
