package main

import (
	"slices"
	"strings"
)

const (
	ringfold  = "ringfold"
	unordered = "ringfold-unordered" // does less than the others
)

// bench is the results of one benchmark.
type bench struct {
	name   string
	panels []panel
}

// panel is results that can be drawn at one scale.
type panel struct {
	title string
	unit  string
	goal  goal
	cases []figures
}

// figures are those of one case, in the order of the file.
type figures struct {
	name    string
	results []result
}

// order is that of the document. What is not in it comes last.
var order = []string{"drain", "ringbuf", "producer", "producers", "first-event", "delay", "harm", "cpu", "overload", "lanes", "drop-in", "ordered", "sources", "skew", "memory"}

func group(results []result) (all []bench) {
	for _, r := range results {
		b := find(&all, func(b bench) bool { return b.name == r.Bench }, bench{name: r.Bench})
		like := panel{title: unitTitle(r.Bench, r.Unit), unit: r.Unit, goal: goalOf(r)}
		p := find(&b.panels, func(p panel) bool { return p.unit == like.unit && p.goal == like.goal }, like)
		c := find(&p.cases, func(c figures) bool { return c.name == r.Case }, figures{name: r.Case})
		c.results = append(c.results, r)
	}
	rank := func(b bench) int {
		if i := slices.Index(order, b.name); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(all, func(a, b bench) int { return rank(a) - rank(b) })
	return all
}

// compares reports whether it has figures of ringfold that others could be better than.
func (b bench) compares() bool {
	return slices.ContainsFunc(b.panels, func(p panel) bool { return slices.Contains(p.readers(), ringfold) })
}

// find returns the element that is wanted, appended if it is missing.
func find[T any](all *[]T, wanted func(T) bool, missing T) *T {
	i := slices.IndexFunc(*all, wanted)
	if i < 0 {
		i = len(*all)
		*all = append(*all, missing)
	}
	return &(*all)[i]
}

func (c figures) of(reader string) (result, bool) {
	i := slices.IndexFunc(c.results, func(r result) bool { return r.Reader == reader })
	if i < 0 {
		return result{}, false
	}
	return c.results[i], true
}

// readers are all that occur, in order.
func (p panel) readers() (all []string) {
	for _, c := range p.cases {
		for _, r := range c.results {
			if !slices.Contains(all, r.Reader) {
				all = append(all, r.Reader)
			}
		}
	}
	return all
}

// goal says which figures are good, in a reader's words.
type goal string

const (
	less    goal = "less is better"
	more    goal = "more is better"
	neither goal = "to compare loads"
)

func goalOf(r result) goal {
	switch {
	case r.Unit == "/s":
		return neither // what was output, not what was read
	case r.Unit == "events/s" || r.Unit == "throughput" || r.Case == "delivered":
		return more
	default:
		return less
	}
}

// better reports whether a is a better figure than b, ratios that round to 1.00 aside.
func (p panel) better(a, b float64) bool {
	switch p.goal {
	case less:
		return a < b*0.995
	case more:
		return b < a*0.995
	default:
		return false
	}
}

// ours reports whether a reader is ringfold in another setting.
func ours(reader string) bool { return strings.HasPrefix(reader, ringfold) }
