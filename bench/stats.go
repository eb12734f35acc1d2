package main

import (
	"cmp"
	"slices"
)

// median of values, which it sorts; 0 of none.
func median(values []float64) float64 {
	above := percentile(values, 0.5)
	if n := len(values); n > 0 && n%2 == 0 {
		return (values[n/2-1] + above) / 2
	}
	return above
}

// percentile is the smallest value that a share p of them does not exceed. It sorts them.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.SortFunc(values, cmp.Compare[float64])
	return values[min(int(p*float64(len(values))), len(values)-1)]
}

// rotated is a list, beginning with element n: who comes first in a round is another one each time.
func rotated[T any](list []T, n int) []T {
	n %= len(list)
	return append(slices.Clone(list[n:]), list[:n]...)
}

// samples gathers figures by reader.
type samples map[string][]float64

func (s samples) add(reader string, value float64) { s[reader] = append(s[reader], value) }

// figure is what samples come to: a value, and how they spread around it, if it is their median.
type figure struct {
	value     float64
	low, high float64 // first and third quartile
}

func (s samples) medians() map[string]figure {
	return s.each(func(values []float64) figure {
		return figure{median(values), percentile(values, 0.25), percentile(values, 0.75)}
	})
}

func (s samples) percentiles(p float64) map[string]figure {
	return s.each(func(values []float64) figure { return figure{value: percentile(values, p)} })
}

func (s samples) each(f func([]float64) figure) map[string]figure {
	m := map[string]figure{}
	for reader, values := range s {
		m[reader] = f(values)
	}
	return m
}
