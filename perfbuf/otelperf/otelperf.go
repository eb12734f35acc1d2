// Package otelperf exports the counts of a [perfbuf.Reader] as OpenTelemetry metrics.
//
//	registration, err := otelperf.Register(provider, reader.Stats, otelperf.Options{})
//
// Counters begin at 0 with each reader. A collection calls Stats once, and nothing else costs
// anything. You may keep a registration after the reader is closed: it has the final counts then.
//
// The metrics are those of package promperf, with the names that OpenTelemetry wants:
// docs/prometheus.md lists them. Prometheus's name of each is that of promperf again.
package otelperf

import (
	"context"
	"math"
	"strings"

	"github.com/ringfold/ringfold/internal/statmetrics"
	"github.com/ringfold/ringfold/perfbuf"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// scope names the meter: what made the metrics.
const scope = "github.com/ringfold/ringfold/perfbuf/otelperf"

// Options select the metrics, and their names and attributes.
type Options struct {
	// Namespace begins all names. The default is "ringfold".
	Namespace string
	// Attributes are on every metric. Several readers of one provider need different attributes.
	Attributes []attribute.KeyValue
	// PerCPU adds the attribute cpu to the metrics of rings, and so makes a time series per CPU of
	// each. Without it, they are sums.
	PerCPU bool
}

// Register observes the results of stats, which is the method Stats of a [perfbuf.Reader] or of a
// perfchan.PerfBuffer, at every collection of the provider, until Unregister of what it returns. It
// does not block. Its errors are those of the provider, for example of an invalid Namespace.
// Collections may call stats concurrently.
func Register(provider metric.MeterProvider, stats func() perfbuf.Stats, o Options) (metric.Registration, error) {
	if o.Namespace == "" {
		o.Namespace = "ringfold"
	}
	meter := provider.Meter(scope)
	all := map[string]instrument{}
	var observed []metric.Observable
	for _, m := range statmetrics.All(o.PerCPU) {
		one, err := newInstrument(meter, o.Namespace, m)
		if err != nil {
			return nil, err
		}
		all[m.Name], observed = one, append(observed, one.observable())
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := stats()
		statmetrics.Each(&s, o.PerCPU, func(name, label string, value float64) {
			all[name].observe(to, value, label, o.Attributes)
		})
		return nil
	}, observed...)
}

// instrument is one for integers, or for what is measured in seconds and ratios.
type instrument struct {
	integer metric.Int64Observable
	float   metric.Float64Observable
	label   attribute.Key
}

// units are those that end Prometheus's names. In OpenTelemetry they are no part of the name.
var units = map[string]string{"bytes": "By", "seconds": "s", "ratio": "1"}

// split takes the unit and the type out of a Prometheus name.
func split(prometheus string) (name, unit string) {
	name = strings.TrimSuffix(prometheus, "_total")
	if at := strings.LastIndexByte(name, '_'); at > 0 && units[name[at+1:]] != "" {
		return name[:at], units[name[at+1:]]
	}
	return name, ""
}

func newInstrument(meter metric.Meter, namespace string, m statmetrics.Metric) (i instrument, err error) {
	name, unit := split(m.Name)
	name = namespace + "." + name
	help, in := metric.WithDescription(m.Help), metric.WithUnit(unit)
	i.label = attribute.Key(m.Label)
	switch float := unit == "s" || unit == "1"; {
	case float && m.Counter:
		i.float, err = meter.Float64ObservableCounter(name, help, in)
	case float:
		i.float, err = meter.Float64ObservableGauge(name, help, in)
	case m.Counter:
		i.integer, err = meter.Int64ObservableCounter(name, help, in)
	default:
		i.integer, err = meter.Int64ObservableGauge(name, help, in)
	}
	return i, err
}

func (i instrument) observable() metric.Observable {
	if i.integer != nil {
		return i.integer
	}
	return i.float
}

// observe leaves out what is not known.
func (i instrument) observe(to metric.Observer, value float64, label string, attributes []attribute.KeyValue) {
	if math.IsNaN(value) {
		return
	}
	with := []metric.ObserveOption{metric.WithAttributes(attributes...)}
	if i.label != "" {
		with = append(with, metric.WithAttributes(i.label.String(label)))
	}
	if i.integer != nil {
		to.ObserveInt64(i.integer, int64(value), with...)
	} else {
		to.ObserveFloat64(i.float, value, with...)
	}
}
