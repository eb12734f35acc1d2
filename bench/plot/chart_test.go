package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// drawn is what a viewer finds in an SVG.
type drawn struct {
	Width float64 `xml:"width,attr"`
	Rects []struct {
		Class string  `xml:"class,attr"`
		X     float64 `xml:"x,attr"`
		Width float64 `xml:"width,attr"`
	} `xml:"rect"`
	Texts []drawnText `xml:"text"`
	Paths []struct {
		Class string `xml:"class,attr"`
		Where string `xml:"d,attr"`
	} `xml:"path"`
}

type drawnText struct {
	Class  string  `xml:"class,attr"`
	Anchor string  `xml:"text-anchor,attr"`
	X      float64 `xml:"x,attr"`
	Text   string  `xml:",chardata"`
}

func parse(t *testing.T, svg string) (d drawn) {
	t.Helper()
	if err := xml.Unmarshal([]byte(svg), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func bar(reader string, value float64) row {
	return row{name: reader, class: colorOf(reader), value: value, caption: number(value)}
}

func about(a, b float64) bool { return math.Abs(a-b) < 0.2 }

// Bars begin where the axis is 0, and are as long as their values say; lines of spread lie where theirs do, and ticks where they say.
func TestLinear(t *testing.T) {
	quick := bar(ringfold, 10)
	quick.low, quick.high = 8, 15
	d := parse(t, stacked("t", []chart{{title: "ns", rows: []row{quick, bar("cilium", 50), bar("aya", 0)}}}))
	bars := d.Rects[1:] // behind them is the card
	unit := bars[0].Width / 10
	if bars[0].X != bars[1].X || !about(bars[1].Width, 50*unit) || bars[2].Width != 0 || bars[1].Width < 500 {
		t.Errorf("bars of 10, 50 and 0 are %+v", bars)
	}
	var spread, ticks int
	for _, p := range d.Paths {
		switch p.Class {
		case "spread":
			var from, to, y float64
			fmt.Sscanf(p.Where, "M%f %fL%f", &from, &y, &to)
			if !about(from, bars[0].X+8*unit) || !about(to, bars[0].X+15*unit) {
				t.Errorf("8 to 15 goes from %v to %v, a unit is %v", from, to, unit)
			}
			spread++
		case "gap":
			t.Error("a bar is broken that fits")
		}
	}
	for _, text := range d.Texts {
		var v float64
		if _, err := fmt.Sscan(text.Text, &v); err == nil && text.Class == "small" {
			ticks++
			if !about(text.X, bars[0].X+v*unit) {
				t.Errorf("the tick of %v is at %v", v, text.X)
			}
		}
	}
	if spread != 1 || ticks < 3 {
		t.Errorf("%d lines of spread, %d ticks", spread, ticks)
	}
}

// What is far longer than the rest is broken, and keeps its figure.
func TestBroken(t *testing.T) {
	var rows []row
	for _, v := range []float64{10, 12, 60, 70, 5000} {
		rows = append(rows, bar("cilium", v))
	}
	d := parse(t, stacked("t", []chart{{title: "ns", rows: rows}}))
	gaps := 0
	for _, p := range d.Paths {
		if p.Class == "gap" {
			gaps++
		}
	}
	if bars := d.Rects[1:]; gaps != 1 || bars[4].Width != bars[3].Width || !about(bars[3].Width, 7*bars[0].Width) {
		t.Errorf("%d bars are broken: %+v", gaps, bars)
	}
	if !slices.ContainsFunc(d.Texts, func(text drawnText) bool { return text.Text == "5000" }) {
		t.Error("no figure of what is broken")
	}
}

func TestLimit(t *testing.T) {
	for want, values := range map[float64][]float64{
		0:    {0, 0},
		90:   {0, 1, 90},               // fits
		200:  {1, 50, 90, 150, 200},    // does not, but where should it be broken
		18:   {0.1, 12, 18, 100, 105},  // at the widest gap
		1000: {1, 10, 900, 1000, 3000}, // not among the short
	} {
		var c chart
		for _, v := range values {
			c.rows = append(c.rows, bar("cilium", v))
		}
		if got := c.limit(); got != want {
			t.Errorf("%v: the axis ends at %v, want %v", values, got, want)
		}
	}
}

// Cases share an axis if their longest bars are much the same.
func TestAxes(t *testing.T) {
	p := panel{title: "ns", goal: less}
	for i, v := range []float64{100, 140, 200, 4000, 150} {
		p.cases = append(p.cases, figures{name: fmt.Sprint(i), results: []result{{Reader: ringfold, Value: 10}, {Reader: "cilium", Value: v}}})
	}
	var rows []int
	for _, c := range p.charts() {
		rows = append(rows, len(c.rows))
	}
	if fmt.Sprint(rows) != "[9 3 3]" {
		t.Errorf("charts have so many lines: %v", rows)
	}
}

// No text is cut, in whatever font: what is beside bars has room for letters that are wider than most.
func TestRoom(t *testing.T) {
	long := bar("ringfold-with-a-rather-long-name", 12_345_678)
	long.caption = "12,345,678 (12,345x)"
	d := parse(t, stacked("t", []chart{{title: "ns", rows: []row{long, bar("cilium", 1_000_000)}}}))
	if strings.Contains(style, "font-size: 10px") {
		t.Error("text is too small to read")
	}
	for _, text := range d.Texts {
		w := textWidth(text.Text, textSize)
		left := text.X
		switch text.Anchor {
		case "end":
			left -= w
		case "middle":
			left -= w / 2
		}
		if left < 0 || left+w > d.Width {
			t.Errorf("%q goes from %v to %v, of %v", text.Text, left, left+w, d.Width)
		}
	}
}

// A card of its own is behind everything, in light and in dark.
func TestBackground(t *testing.T) {
	d := parse(t, stacked("t", []chart{{title: "ns", rows: []row{bar(ringfold, 1)}}}))
	if d.Rects[0].Class != "card" || strings.Count(style, ".card {") != 2 || strings.Count(style, "\ntext {") != 2 {
		t.Errorf("the first is %+v", d.Rects[0])
	}
}
