// Package promperf exports the counts of a [perfbuf.Reader] as Prometheus metrics.
//
//	prometheus.MustRegister(promperf.NewCollector(reader.Stats, promperf.Options{}))
//
// Counters begin at 0 with each reader. A collector calls Stats per scrape, and otherwise costs
// nothing. You may keep it after the reader is closed: it has the final counts then.
// docs/prometheus.md lists the metrics.
package promperf

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/ringfold/ringfold/internal/statmetrics"
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

// family is a metric with the name and labels that Options give it.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	own  bool // it has a label of its own
}

type collector struct {
	stats    func() perfbuf.Stats
	perCPU   bool
	families map[string]family // by the metric's name
}

// NewCollector returns a collector for the results of stats: the method Stats of a
// [perfbuf.Reader], or of a perfchan.PerfBuffer.
func NewCollector(stats func() perfbuf.Stats, o Options) prometheus.Collector {
	if o.Namespace == "" {
		o.Namespace = "ringfold"
	}
	c := &collector{stats: stats, perCPU: o.PerCPU, families: map[string]family{}}
	for _, m := range statmetrics.All(o.PerCPU) {
		var labels []string
		if m.Label != "" {
			labels = []string{m.Label}
		}
		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		desc := prometheus.NewDesc(o.Namespace+"_"+m.Name, m.Help, labels, o.Labels)
		c.families[m.Name] = family{desc, kind, m.Label != ""}
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range c.families {
		to <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.stats()
	statmetrics.Each(&s, c.perCPU, func(name, label string, value float64) {
		f := c.families[name]
		if f.own {
			to <- prometheus.MustNewConstMetric(f.desc, f.kind, value, label)
		} else {
			to <- prometheus.MustNewConstMetric(f.desc, f.kind, value)
		}
	})
}
