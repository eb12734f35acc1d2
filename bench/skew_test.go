package main

import (
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
)

func TestSimulateSkew(t *testing.T) {
	for _, reader := range skewReaders {
		for _, c := range []struct {
			skewCase
			least, most float64
		}{
			{skewCase{load: 0.5, hot: 0.5, outputs: 3_000}, 0, 0},
			{skewCase{load: 0.9, hot: 0.5, pauses: true, outputs: 25_000}, 0.0001, 0.1},
			{skewCase{load: 2, hot: 0.5, warmUp: 20_000, outputs: 10_000}, 0.2, 0.52}, // half is too much; rings fill up
		} {
			share, err := simulateSkew(schedule(reader), c.skewCase)
			if err != nil {
				t.Fatal(err)
			}
			if share < c.least || share > c.most {
				t.Errorf("%s, %+v: %v was lost", reader, c.skewCase, share)
			}
			if reader != ringfold {
				continue
			}
			if again, err := simulateSkew(schedule(reader), c.skewCase); again != share || err != nil {
				t.Errorf("%+v: %v was lost, and another time %v, %v", c.skewCase, share, again, err)
			}
		}
	}
}

func TestSkewReal(t *testing.T) {
	kerneltest.Require(t)
	if len(cpus) < 2 {
		t.Skip("needs two CPUs")
	}
	r := &run{quick: true}
	if err := skewReal(r); err != nil {
		t.Fatal(err)
	}
	if len(r.results) != len(skewReaders) {
		t.Errorf("results: %+v", r.results)
	}
}
