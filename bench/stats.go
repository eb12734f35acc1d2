package main

import (
	"slices"

	"github.com/ringfold/ringfold/internal/quantile"
)

// median of values, which it sorts; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	below := quantile.Of(values, 0.5)
	return (below + values[len(values)/2]) / 2
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
		return figure{median(values), quantile.Of(values, 0.25), quantile.Of(values, 0.75)}
	})
}

func (s samples) quantiles(q float64) map[string]figure {
	return s.each(func(values []float64) figure { return figure{value: quantile.Of(values, q)} })
}

func (s samples) each(f func([]float64) figure) map[string]figure {
	m := map[string]figure{}
	for reader, values := range s {
		m[reader] = f(values)
	}
	return m
}
