package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Readers, as results name them.
const (
	ringfold        = "ringfold"
	libbpfC         = "libbpf-c"         // perf_buffer__consume with a C callback
	cLoop           = "c-loop"           // a plain loop in C over the mapped rings
	cilium          = "cilium"           // cilium/ebpf perf.Reader.ReadInto
	ciliumWatermark = "cilium-watermark" // the same, with ReaderOptions.Watermark
	libbpfgoReader  = "libbpfgo"         // libbpfgo InitPerfBuf: a channel
	ayaReader       = "aya"              // aya PerfEventArrayBuffer.read_events, if it is built in

	// Of another kind of map.
	ciliumRingbuf     = "cilium-ringbuf"      // cilium/ebpf ringbuf.Reader.ReadInto
	ciliumRingbufRead = "cilium-ringbuf-read" // its Read, which allocates
)

// result is one figure.
type result struct {
	Bench  string  `json:"bench"`
	Case   string  `json:"case"`
	Reader string  `json:"reader"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	Low    float64 `json:"low,omitempty"` // quartiles of the samples that Value is the median of; a High of 0 is none
	High   float64 `json:"high,omitempty"`
	Ratio  float64 `json:"ratio_to_ringfold"` // 0 if ringfold's is 0, or is missing
}

// run gathers results.
type run struct {
	quick   bool // once and briefly
	bench   string
	results []result
}

// add adds the figures of one case, by reader, and their ratios to ringfold's. What the readers are
// is up to the benchmark: variants of one are named like "ringfold-every-event".
func (r *run) add(c, unit string, values map[string]figure, order ...string) {
	for _, reader := range order {
		v, ok := values[reader]
		if !ok {
			continue
		}
		res := result{Bench: r.bench, Case: c, Reader: reader, Unit: unit, Value: v.value, Low: v.low, High: v.high}
		if own := values[ringfold].value; own != 0 {
			res.Ratio = v.value / own
		}
		r.results = append(r.results, res)
	}
}

func printTable(to io.Writer, results []result) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "bench\tcase\treader\tvalue\tunit\tx ringfold\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.4g\t%s\t%.2f\t\n", r.Bench, r.Case, r.Reader, r.Value, r.Unit, r.Ratio)
	}
	w.Flush()
}
