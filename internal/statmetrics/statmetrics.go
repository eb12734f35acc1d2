// Package statmetrics lists the metrics of a [perfbuf.Stats], for all packages that export them.
//
// table.go has the metrics, this file says which of them a Stats has.
package statmetrics

import (
	"strconv"

	"github.com/ringfold/ringfold/perfbuf"
)

// Metric describes one. Names and texts are Prometheus's: a name ends with its unit, and that of a
// counter with _total.
type Metric struct {
	Name, Help string
	Counter    bool   // else a gauge
	Label      string // the label whose values Each returns, empty if there is none
}

// All lists every metric that Each may return for perCPU.
func All(perCPU bool) []Metric {
	cpu := ""
	if perCPU {
		cpu = "cpu"
	}
	all := describe(nil, readerRows, "")
	all = describe(all, ringRows, cpu)
	all = describe(all, refusedRows, "reason")
	return describe(all, providerRows, "provider")
}

func describe[T any](to []Metric, rows []row[T], label string) []Metric {
	for _, r := range rows {
		to = append(to, Metric{r.name, r.help, r.counter, label})
	}
	return to
}

// Each calls f for the metrics that s has. The label is empty for metrics without one. With perCPU,
// those of rings come once for each CPU, else as sums. A value is NaN if it is not known.
func Each(s *perfbuf.Stats, perCPU bool, f func(name, label string, value float64)) {
	each(readerRows, s, "", f)
	if perCPU {
		for _, ring := range s.Rings {
			each(ringRows, ring, strconv.Itoa(ring.CPU), f)
		}
	} else if len(s.Rings) > 0 {
		each(ringRows, sum(s), "", f)
	}
	if len(s.Outputs.CPUs) > 0 {
		out := s.Outputs.Total()
		for reason, n := range map[string]uint64{
			"shed": out.Shed, "full": out.Full, "no_ring": out.NoRing, "nested": out.Nested, "offline": out.Offline,
			"no_entry": out.NoEntry, "too_large": out.TooLarge, "other": out.Other,
		} {
			each(refusedRows, n, reason, f)
		}
	}
	if s.Barrier.Provider != "" {
		each(providerRows, s.Barrier.Provider, s.Barrier.Provider, f)
	}
}

func each[T any](rows []row[T], of T, label string, f func(name, label string, value float64)) {
	for _, r := range rows {
		f(r.name, label, r.number(of))
	}
}

// sum is all rings as one, except for the high-water mark, which is that of the fullest.
func sum(s *perfbuf.Stats) perfbuf.RingStats {
	t := s.Total()
	fullest := float64(t.HighWater) / float64(t.Size)
	t.Size, t.Used = 0, 0
	for _, ring := range s.Rings {
		t.Size += ring.Size
		t.Used += ring.Used
	}
	t.HighWater = int(fullest * float64(t.Size))
	return t
}
