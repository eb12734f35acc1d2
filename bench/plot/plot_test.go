package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `[
 {"bench": "skew", "case": "64 simulated rings, load 0.9", "reader": "ringfold", "unit": "share", "value": 0, "ratio_to_ringfold": 0},
 {"bench": "skew", "case": "64 simulated rings, load 0.9", "reader": "ringfold-fixed-order", "unit": "share", "value": 0.01, "ratio_to_ringfold": 0},
 {"bench": "drain", "case": "56B/64KiB", "reader": "ringfold", "unit": "ns", "value": 4, "ratio_to_ringfold": 1},
 {"bench": "drain", "case": "56B/64KiB", "reader": "c-loop", "unit": "ns", "value": 3, "ratio_to_ringfold": 0.75},
 {"bench": "drain", "case": "56B/64KiB", "reader": "cilium", "unit": "ns", "value": 60, "low": 45, "high": 75, "ratio_to_ringfold": 15},
 {"bench": "drain", "case": "56B/64KiB", "reader": "aya", "unit": "ns", "value": 20, "ratio_to_ringfold": 5},
 {"bench": "drain", "case": "8192B/64KiB", "reader": "ringfold", "unit": "ns", "value": 40, "ratio_to_ringfold": 1},
 {"bench": "drain", "case": "8192B/64KiB", "reader": "cilium", "unit": "ns", "value": 500, "ratio_to_ringfold": 12.5},
 {"bench": "drain", "case": "8192B/64KiB", "reader": "aya", "unit": "ns", "value": 480, "ratio_to_ringfold": 12},
 {"bench": "drain", "case": "8192B/64KiB", "reader": "libbpfgo", "unit": "ns", "value": 5000, "ratio_to_ringfold": 125},
 {"bench": "drain", "case": "1024 bytes", "reader": "ringfold", "unit": "events/s", "value": 12000000, "ratio_to_ringfold": 1},
 {"bench": "drain", "case": "1024 bytes", "reader": "libbpf-c", "unit": "events/s", "value": 13000000, "ratio_to_ringfold": 1.083},
 {"bench": "harm", "case": "no interval", "reader": "no-barriers", "unit": "throughput", "value": 1, "ratio_to_ringfold": 0},
 {"bench": "harm", "case": "no interval", "reader": "ringfold-membarrier", "unit": "throughput", "value": 0.98, "ratio_to_ringfold": 0},
 {"bench": "delay", "case": "100k/s p50", "reader": "ringfold", "unit": "us ordered", "value": 562, "low": 300, "high": 800, "ratio_to_ringfold": 1},
 {"bench": "delay", "case": "100k/s p99", "reader": "ringfold", "unit": "us ordered", "value": 1356, "ratio_to_ringfold": 1},
 {"bench": "cpu", "case": "100k/s", "reader": "ringfold", "unit": "s/Mevent", "value": 0.109, "low": 0.1, "high": 0.12, "ratio_to_ringfold": 1},
 {"bench": "cpu", "case": "100k/s", "reader": "aya", "unit": "s/Mevent", "value": 0.4, "ratio_to_ringfold": 3.7},
 {"bench": "overload", "case": "lost", "reader": "libbpfgo", "unit": "share", "value": 0.9, "ratio_to_ringfold": 2.7},
 {"bench": "something new", "case": "a & b", "reader": "ringfold", "unit": "ns", "value": 1, "ratio_to_ringfold": 1}
]`

func TestRender(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "bench.json")
	if err := os.WriteFile(in, []byte(sample), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := render(in, os.Args[0], dir); err != nil {
		t.Fatal(err)
	}
	doc := read(t, dir, "benchmarks.md")
	for _, want := range []string{
		"64 simulated rings, load 0.9", "| 1024 bytes |", "a & b", "ringfold-fixed-order", "60 (15.0x)",
		"bench-drain.svg", "bench-skew.svg", "bench-something-new.svg", "| kernel | Linux ",
		"**ringfold loses here:**\n\n- 56B/64KiB: it has 4 (ns per event), c-loop has 3 (0.75x)\n" +
			"- 1024 bytes: it has 12,000,000 (events/s), libbpf-c has 13,000,000 (1.08x)\n",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("benchmarks.md lacks %q", want)
		}
	}
	_, barriers, _ := strings.Cut(doc, "bench-harm.svg")
	if barriers, _, _ = strings.Cut(barriers, "\n## "); !strings.Contains(barriers, "(more is better)") || strings.Contains(barriers, "loses") {
		t.Errorf("what barriers cost is no comparison of ringfold with others: %q", barriers)
	}
	if strings.Index(doc, "bench-drain.svg") > strings.Index(doc, "bench-skew.svg") {
		t.Error("skew comes before drain")
	}
	for name, want := range map[string][]string{
		"bench-drain.svg":         {"56B/64KiB", "1024 bytes", "c-loop", "60 (15.0x)", "12,000,000"},
		"bench-skew.svg":          {"64 simulated rings, load 0.9", "ringfold-fixed-order"},
		"bench-something-new.svg": {"a & b"},
		"bench-headline.svg":      {"56 bytes", "cilium/ebpf", "60 ns", "aya (Rust)", "20 ns", "0.56 / 1.4 ms", "1.1 %", "4.0 %", "90 %", "quartiles"},
	} {
		text := texts(t, read(t, dir, name))
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q", name, w)
			}
		}
	}
}

// texts checks that an SVG is well-formed and returns what it has written on it.
func texts(t *testing.T, svg string) string {
	t.Helper()
	var all strings.Builder
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		} else if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.CharData); ok {
			all.Write(s)
		}
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRatio(t *testing.T) {
	for v, want := range map[float64]string{0.0669: "0.067x", 0.756: "0.76x", 1: "1.00x", 12.34: "12.3x", 678.9: "679x", 12345.6: "12,346x"} {
		if got := ratio(v); got != want {
			t.Errorf("ratio(%v) is %q, want %q", v, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0123456: "0.0123", 4: "4", 12.345: "12.3", 999.6: "1000", 1234.5: "1234", 12345: "12,345", 12000000: "12,000,000", 1e-6: "0.000001",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) is %q, want %q", v, got, want)
		}
	}
}
