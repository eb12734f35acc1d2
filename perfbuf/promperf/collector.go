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

// A metric is what is made of one number, or a few.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (m metric) of(v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

// numbered is a metric, and which number of T it is.
type numbered[T any] struct {
	metric
	number func(T) float64
}

type collector struct {
	stats  func() perfbuf.Stats
	perCPU bool

	reader   []numbered[*perfbuf.Stats]
	rings    []numbered[perfbuf.RingStats]
	fullness metric
	refused  metric
	provider metric
}

// NewCollector returns a collector of what stats returns: the method Stats of a [perfbuf.Reader], or of a
// perfchan.PerfBuffer.
func NewCollector(stats func() perfbuf.Stats, o Options) prometheus.Collector {
	if o.Namespace == "" {
		o.Namespace = "ringfold"
	}
	c := &collector{stats: stats, perCPU: o.PerCPU}
	named := func(name, help string, kind prometheus.ValueType, labels ...string) metric {
		return metric{prometheus.NewDesc(o.Namespace+"_"+name, help, labels, o.Labels), kind}
	}
	for _, m := range readerMetrics {
		c.reader = append(c.reader, numbered[*perfbuf.Stats]{named(m.name, m.help, m.kind), m.number})
	}
	var cpu []string
	if o.PerCPU {
		cpu = []string{"cpu"}
	}
	for _, m := range ringMetrics {
		c.rings = append(c.rings, numbered[perfbuf.RingStats]{named(m.name, m.help, m.kind, cpu...), m.number})
	}
	c.fullness = named("ring_high_water_ratio", "Highest fill level of a ring, as a share of its size; without the label cpu, of the fullest ring.", prometheus.GaugeValue, cpu...)
	c.refused = named("outputs_refused_total", "Outputs that the kernel refused, by reason. Needs Options.Outputs.", prometheus.CounterValue, "reason")
	c.provider = named("barrier_provider", "The way barriers wait: 1 for the provider in use.", prometheus.GaugeValue, "provider")
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range c.reader {
		to <- m.desc
	}
	for _, m := range c.rings {
		to <- m.desc
	}
	for _, m := range []metric{c.fullness, c.refused, c.provider} {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.stats()
	for _, m := range c.reader {
		to <- m.of(m.number(&s))
	}
	if c.perCPU {
		for _, ring := range s.Rings {
			c.collectRing(to, ring, strconv.Itoa(ring.CPU))
		}
	} else if len(s.Rings) > 0 {
		c.collectRing(to, sum(s))
	}
	if len(s.Outputs.CPUs) > 0 {
		out := s.Outputs.Total()
		for reason, n := range map[string]uint64{
			"full": out.Full, "no_ring": out.NoRing, "nested": out.Nested, "offline": out.Offline, "no_entry": out.NoEntry, "too_large": out.TooLarge, "other": out.Other,
		} {
			to <- c.refused.of(float64(n), reason)
		}
	}
	if s.Barrier.Provider != "" {
		to <- c.provider.of(1, s.Barrier.Provider)
	}
}

func (c *collector) collectRing(to chan<- prometheus.Metric, ring perfbuf.RingStats, labels ...string) {
	for _, m := range c.rings {
		to <- m.of(m.number(ring), labels...)
	}
	highWater := 0.0
	if ring.HighWater > 0 {
		highWater = float64(ring.HighWater) / float64(ring.Size)
	}
	to <- c.fullness.of(highWater, labels...)
}

// sum is all rings as one, but for the high-water mark, which is that of the fullest.
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
