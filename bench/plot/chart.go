package main

import (
	"fmt"
	"math"
	"slices"
)

// chart is bars on one linear axis, which begins at 0.
type chart struct {
	title string
	rows  []row
}

// row is a line of a chart: a bar, or the name of the case of those below it.
type row struct {
	name      string
	heading   bool
	class     string
	value     float64
	low, high float64 // how it spreads; a high of 0 is not known
	more      float64 // if not 0, the bar goes on to here, paler
	caption   string
}

const (
	rowHeight   = 19.0
	barHeight   = 12.0
	titleHeight = 26.0
	axisHeight  = 24.0
)

// charts has a chart for cases in a row whose longest bars differ little: one axis would not do for all. The first has the title.
func (p panel) charts() (all []chart) {
	var least, most float64 // of the longest bars
	for _, f := range p.cases {
		rows := []row{{name: f.name, heading: true}}
		longest := 0.0
		for _, r := range f.results {
			bar := row{name: r.Reader, class: colorOf(r.Reader), value: r.Value, low: r.Low, high: r.High, caption: caption(r)}
			rows, longest = append(rows, bar), max(longest, bar.end())
		}
		least, most = min(least, longest), max(most, longest)
		if len(all) > 0 && most <= 3*least {
			all[len(all)-1].rows = append(all[len(all)-1].rows, rows...)
			continue
		}
		least, most = longest, longest
		all = append(all, chart{rows: rows})
	}
	all[0].title = fmt.Sprintf("%s (%s)", p.title, p.goal)
	return all
}

func (c chart) top() float64 {
	if c.title == "" {
		return 0
	}
	return titleHeight
}

func (c chart) height() float64 { return c.top() + rowHeight*float64(len(c.rows)) + axisHeight }

func (r row) end() float64 { return max(r.value, r.high, r.more) }

// limit is where the axis ends. If values differ too much for one linear axis, the longest bars, those beyond the widest gap, are broken
// there: their figures say how long they would be.
func (c chart) limit() float64 {
	var ends []float64
	for _, r := range c.rows {
		if e := r.end(); e > 0 {
			ends = append(ends, e)
		}
	}
	if len(ends) == 0 {
		return 0
	}
	slices.Sort(ends)
	limit := ends[len(ends)-1]
	if limit <= 100*ends[0] {
		return limit
	}
	for i, gap := (len(ends)+1)/2, 2.0; i < len(ends); i++ {
		if wide := ends[i] / ends[i-1]; wide > gap {
			limit, gap = ends[i-1], wide
		}
	}
	return limit
}

// draw draws the chart with its upper left corner at x, y.
func (c chart) draw(s *svg, x, y, width float64) {
	var names float64
	for _, r := range c.rows {
		if !r.heading {
			names = max(names, textWidth(r.name, textSize))
		}
	}
	from, limit := x+names+8, c.limit()
	scale := math.Inf(1) // px for 1
	for _, r := range c.rows {
		room := x + width - from - textWidth(r.caption, textSize) - 6
		if e := min(r.end(), limit); e > 0 {
			scale = min(scale, room/e)
		}
	}
	if limit == 0 {
		scale = 0
	}
	if c.title != "" {
		s.text("title", "", x, y+16, c.title)
	}
	top := y + c.top()
	bottom := top + rowHeight*float64(len(c.rows))
	for _, t := range ticks(limit) {
		at := from + t*scale
		s.lines("grid", at, top, at, bottom)
		s.text("small", "middle", at, bottom+15, number(t))
	}
	for i, r := range c.rows {
		r.draw(s, from, top+rowHeight*float64(i), scale, limit)
	}
	s.lines("axis", from, top, from, bottom)
}

func (r row) draw(s *svg, from, y, scale, limit float64) {
	if r.heading {
		s.text("title", "", from+5, y+14, r.name)
		return
	}
	s.text("", "end", from-6, y+13.5, r.name)
	top, middle := y+(rowHeight-barHeight)/2, y+rowHeight/2
	end := from + min(r.end(), limit)*scale
	s.rect(r.class, from, top, min(r.value, limit)*scale, barHeight)
	if r.more > r.value {
		s.rect(r.class+" more", from+min(r.value, limit)*scale, top, end-from-min(r.value, limit)*scale, barHeight)
	}
	switch {
	case r.value > limit || r.more > limit:
		s.lines("gap", end-14, top+barHeight+1, end-9, top-1, end-8, top+barHeight+1, end-3, top-1)
	case r.high > 0:
		low, high := from+r.low*scale, from+min(r.high, limit)*scale
		s.lines("spread", low, middle, high, middle, low, middle-3, low, middle+3, high, middle-3, high, middle+3)
	}
	s.text("", "", end+5, y+13.5, r.caption)
}

// ticks are up to six round numbers, from 0 to at most a limit.
func ticks(limit float64) (all []float64) {
	if limit == 0 {
		return []float64{0}
	}
	step := math.Pow(10, math.Floor(math.Log10(limit)))
	for _, by := range []float64{0.1, 0.2, 0.5, 1} {
		if limit/(step*by) <= 6 {
			step *= by
			break
		}
	}
	for i := 0.0; i*step <= limit*(1+1e-9); i++ {
		all = append(all, i*step)
	}
	return all
}

// stacked draws charts below each other.
func stacked(title string, charts []chart) string {
	height := 16.0
	for _, c := range charts {
		height += c.height() + 8
	}
	s := newSVG(title, height)
	y := 8.0
	for _, c := range charts {
		c.draw(s, 14, y, width-28)
		y += c.height() + 8
	}
	return s.String()
}
