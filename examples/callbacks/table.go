package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// printer prints results.
type printer interface {
	add(result) error
	end() error
}

func newPrinter(c config, out io.Writer) printer {
	if c.json {
		return jsonLines{json.NewEncoder(out)}
	}
	rate := fmt.Sprintf("%d per second", c.rate)
	if c.rate == 0 {
		rate = "as many as can be"
	}
	fmt.Fprintf(out, "System calls of another process on all CPUs, %s, for %v with each way.\n\n", rate, c.duration)
	t := &table{out: tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)}
	fmt.Fprint(t.out, "WAY\t")
	for _, k := range kinds {
		fmt.Fprintf(t.out, "%s\t", k.name)
	}
	fmt.Fprint(t.out, "LOST\tATTEMPTED\tPER SECOND\tCPU SECONDS\tFOR A MILLION\tRATIO\t\n")
	return t
}

// table prints a line per way. The last column is its CPU time as a multiple of the first way's.
type table struct {
	out   *tabwriter.Writer
	first float64
}

func (t *table) add(r result) error {
	if t.first == 0 {
		t.first = r.perMillion()
	}
	fmt.Fprintf(t.out, "%s\t", r.way)
	for _, n := range r.kinds {
		fmt.Fprintf(t.out, "%d\t", n)
	}
	_, err := fmt.Fprintf(t.out, "%d\t%d\t%.0f\t%.3f\t%.3f\t%.2fx\t\n",
		r.lost, r.attempted, float64(r.attempted)/r.lasted.Seconds(), r.cpu.Seconds(), r.perMillion(), r.perMillion()/t.first)
	return err
}

func (t *table) end() error { return t.out.Flush() }

// jsonLines prints an object per way.
type jsonLines struct{ out *json.Encoder }

func (j jsonLines) add(r result) error {
	received := map[string]uint64{}
	for i, k := range kinds {
		received[k.name] = r.kinds[i]
	}
	return j.out.Encode(struct {
		Way        string            `json:"way"`
		Received   map[string]uint64 `json:"received"`
		Lost       uint64            `json:"lost"`
		Attempted  uint64            `json:"attempted"`
		Seconds    float64           `json:"seconds"`
		CPUSeconds float64           `json:"cpu_seconds"`
		PerMillion float64           `json:"cpu_seconds_per_million"`
	}{r.way, received, r.lost, r.attempted, r.lasted.Seconds(), r.cpu.Seconds(), r.perMillion()})
}

func (j jsonLines) end() error { return nil }
