package main

import (
	"fmt"
	"slices"
)

// headlinePeers are whom the README compares with, and the names they have there.
var headlinePeers = []struct{ reader, name string }{
	{ringfold, "ringfold"},
	{"libbpf-c", "libbpf (C)"},
	{"cilium", "cilium/ebpf"},
	{"aya", "aya (Rust)"},
	{"libbpfgo", "libbpfgo"},
}

// headlines are cases of benchmarks, and what is shown of them: so many times the value, with a unit.
var headlines = []struct {
	bench, name, unit string
	title             string
	times             float64
	suffix            string
}{
	{"drain", "56B/64KiB", "ns", "Reading an event of 56 bytes, ns", 1, " ns"},
	{"cpu", "100k/s", "s/Mevent", "CPU time of the reader at 100,000 events/s, % of one CPU", 10, " %"},
	{"overload", "lost", "share", "Events lost when more come than can be read, %", 100, " %"},
}

// headline is what the README shows: four small charts, two by two. If one has no figures, there is none.
func headline(all []bench) (drawing string, ok bool) {
	charts := []chart{delays(all)}
	for _, h := range headlines {
		c := chart{title: h.title}
		for _, p := range headlinePeers {
			r, ok := figureOf(all, h.bench, h.name, h.unit, p.reader)
			if !ok {
				continue
			}
			v := r.Value * h.times
			c.rows = append(c.rows, row{name: p.name, class: colorOf(p.reader), value: v, low: r.Low * h.times, high: r.High * h.times, caption: short(v) + h.suffix})
		}
		charts = append(charts, c)
	}
	rows, spread := 0, false
	for _, c := range charts {
		spread = spread || slices.ContainsFunc(c.rows, func(r row) bool { return r.high > 0 })
		if len(c.rows) == 0 {
			return "", false
		}
		rows = max(rows, len(c.rows))
	}
	const margin, between = 16.0, 28.0
	header := 44.0
	half := titleHeight + rowHeight*float64(rows) + axisHeight + 14
	s := newSVG("ringfold and others: delay in order, time per event, CPU time, losses", header+2*half)
	s.text("header", "", margin, 27, "What it costs: less is better in all four")
	if spread {
		s.text("small", "end", width-margin, 27, "medians; thin lines are quartiles")
	}
	for i, c := range charts {
		w := (width - 2*margin - between) / 2
		c.draw(s, margin+float64(i%2)*(w+between), header+float64(i/2)*half, w)
	}
	return s.String(), true
}

// delays is how long events take in ordered streams, as median and 99th percentile.
func delays(all []bench) chart {
	c := chart{title: "Delay in order at 100,000 events/s: p50 / p99, ms"}
	for _, reader := range []struct{ reader, name string }{
		{ringfold, "exact"}, {"ringfold-slack-1ms", "slack 1 ms"}, {"ringfold-map-in-map", "exact, map-in-map"},
	} {
		p50, ok := figureOf(all, "delay", "100k/s p50", "us ordered", reader.reader)
		p99, too := figureOf(all, "delay", "100k/s p99", "us ordered", reader.reader)
		if ok && too {
			c.rows = append(c.rows, row{
				name: reader.name, class: colorOf(reader.reader), value: p50.Value / 1000, more: p99.Value / 1000,
				caption: fmt.Sprintf("%s / %s ms", short(p50.Value/1000), short(p99.Value/1000)),
			})
		}
	}
	return c
}

// figureOf finds a figure.
func figureOf(all []bench, name, c, unit, reader string) (result, bool) {
	for _, b := range all {
		for _, p := range b.panels {
			for _, f := range p.cases {
				if b.name == name && f.name == c && p.unit == unit {
					return f.of(reader)
				}
			}
		}
	}
	return result{}, false
}
