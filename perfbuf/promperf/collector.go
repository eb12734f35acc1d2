// Package promperf exports the counts of a [perfbuf.Reader] as Prometheus metrics.
//
//	prometheus.MustRegister(promperf.NewCollector(reader.Stats, promperf.Options{}))
//
// Counters begin at 0 with each reader. A collector calls Stats per scrape, and otherwise costs
// nothing. You may keep it after the reader is closed: it has the final counts then.
// docs/prometheus.md lists the metrics.
package promperf

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/ringfold/ringfold/perfbuf"
)

// Options select the metrics, and their names and labels.
type Options struct {
	// Namespace begins all names. The default is "ringfold".
	Namespace string
	// Labels are on every metric. Several readers in one registry need different labels.
	Labels prometheus.Labels
	// PerCPU adds the label cpu to the metrics of rings, and so makes a time series per CPU of
	// each. Without it, they are sums.
	PerCPU bool
}

// family is a metric with the names and labels that Options give it.
type family[T any] struct {
	metric[T]
	desc *prometheus.Desc
}

// families describes metrics, in all too.
func families[T any](metrics []metric[T], o Options, labels []string, all *[]*prometheus.Desc) (list []family[T]) {
	for _, m := range metrics {
		desc := prometheus.NewDesc(o.Namespace+"_"+m.name, m.help, labels, o.Labels)
		list, *all = append(list, family[T]{m, desc}), append(*all, desc)
	}
	return list
}

func collect[T any](to chan<- prometheus.Metric, list []family[T], of T, labels ...string) {
	for _, f := range list {
		to <- prometheus.MustNewConstMetric(f.desc, f.kind, f.number(of), labels...)
	}
}

type collector struct {
	stats  func() perfbuf.Stats
	perCPU bool
	descs  []*prometheus.Desc

	reader    []family[*perfbuf.Stats]
	rings     []family[perfbuf.RingStats]
	refused   []family[uint64] // by reason
	providers []family[string]
}

// NewCollector returns a collector for the results of stats: the method Stats of a
// [perfbuf.Reader], or of a perfchan.PerfBuffer.
func NewCollector(stats func() perfbuf.Stats, o Options) prometheus.Collector {
	if o.Namespace == "" {
		o.Namespace = "ringfold"
	}
	var cpu []string
	if o.PerCPU {
		cpu = []string{"cpu"}
	}
	c := &collector{stats: stats, perCPU: o.PerCPU}
	c.reader = families(readerMetrics, o, nil, &c.descs)
	c.rings = families(ringMetrics, o, cpu, &c.descs)
	c.refused = families(refusedMetrics, o, []string{"reason"}, &c.descs)
	c.providers = families(providerMetrics, o, []string{"provider"}, &c.descs)
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.stats()
	collect(to, c.reader, &s)
	if c.perCPU {
		for _, ring := range s.Rings {
			collect(to, c.rings, ring, strconv.Itoa(ring.CPU))
		}
	} else if len(s.Rings) > 0 {
		collect(to, c.rings, sum(s))
	}
	if len(s.Outputs.CPUs) > 0 {
		out := s.Outputs.Total()
		for reason, n := range map[string]uint64{
			"shed": out.Shed, "full": out.Full, "no_ring": out.NoRing, "nested": out.Nested, "offline": out.Offline, "no_entry": out.NoEntry, "too_large": out.TooLarge, "other": out.Other,
		} {
			collect(to, c.refused, n, reason)
		}
	}
	if s.Barrier.Provider != "" {
		collect(to, c.providers, s.Barrier.Provider, s.Barrier.Provider)
	}
}

// sum is all rings as one, except for the high-water mark, which is that of the fullest.
func sum(s perfbuf.Stats) perfbuf.RingStats {
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
