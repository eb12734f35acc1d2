package otelperf

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/promperf"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func example() perfbuf.Stats {
	s := perfbuf.Stats{
		Rings: []perfbuf.RingStats{
			{CPU: 0, Size: 4096, HighWater: 1024, Used: 10, Samples: 5, Lost: 2},
			{CPU: 7, Size: 4096, HighWater: 3072, Used: 20, Samples: 1 << 52, Bytes: 9},
		},
		Wakes: 3, MaxLateness: 250 * time.Millisecond,
	}
	s.Outputs.CPUs = []perfbuf.CPUOutputs{{CPU: 7, Attempted: 90, Full: 2, NoRing: 4}}
	s.Barrier.Provider, s.Barrier.P50 = "map-in-map", time.Millisecond
	return s
}

// collect returns the values by names and attributes, and the metrics by names.
func collect(t *testing.T, reader metric.Reader) (map[string]float64, map[string]metricdata.Metrics) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	values, metrics := map[string]float64{}, map[string]metricdata.Metrics{}
	for _, one := range all.ScopeMetrics {
		for _, m := range one.Metrics {
			metrics[m.Name] = m
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				require.True(t, data.IsMonotonic, m.Name)
				points(values, m.Name, data.DataPoints)
			case metricdata.Gauge[int64]:
				points(values, m.Name, data.DataPoints)
			case metricdata.Gauge[float64]:
				points(values, m.Name, data.DataPoints)
			default:
				require.Failf(t, "unexpected", "%s: %T", m.Name, m.Data)
			}
		}
	}
	return values, metrics
}

func points[N int64 | float64](to map[string]float64, name string, all []metricdata.DataPoint[N]) {
	for _, p := range all {
		key := name
		for _, kv := range p.Attributes.ToSlice() {
			key += " " + string(kv.Key) + "=" + kv.Value.String()
		}
		to[key] = float64(p.Value)
	}
}

func observe(t *testing.T, o Options, s perfbuf.Stats) (map[string]float64, map[string]metricdata.Metrics) {
	t.Helper()
	reader := metric.NewManualReader()
	_, err := Register(metric.NewMeterProvider(metric.WithReader(reader)), func() perfbuf.Stats { return s }, o)
	require.NoError(t, err)
	return collect(t, reader)
}

func TestAttributes(t *testing.T) {
	sums, metrics := observe(t, Options{}, example())
	require.Equal(t, float64(5+1<<52), sums["ringfold.samples"])
	require.Equal(t, 8192.0, sums["ringfold.ring_size"])
	require.Equal(t, "By", metrics["ringfold.ring_size"].Unit)
	require.Equal(t, 0.75, sums["ringfold.ring_high_water"], "of the fullest")
	require.Equal(t, "1", metrics["ringfold.ring_high_water"].Unit)
	require.Equal(t, 0.25, sums["ringfold.max_lateness"])
	require.Equal(t, "s", metrics["ringfold.max_lateness"].Unit)
	require.Equal(t, "By", metrics["ringfold.read"].Unit)
	require.Equal(t, 4.0, sums["ringfold.outputs_refused reason=no_ring"])
	require.Equal(t, 1.0, sums["ringfold.barrier_provider provider=map-in-map"])
	require.Equal(t, "Events delivered.", metrics["ringfold.samples"].Description)

	own, _ := observe(t, Options{Namespace: "agent", PerCPU: true, Attributes: []attribute.KeyValue{attribute.String("map", "events")}}, example())
	require.Equal(t, 5.0, own["agent.samples cpu=0 map=events"])
	require.Equal(t, 0.75, own["agent.ring_high_water cpu=7 map=events"])
	require.Equal(t, 2.0, own["agent.rings map=events"])
	require.NotContains(t, own, "agent.samples map=events")
}

// What is not known is left out, and errors are 1.
func TestNothing(t *testing.T) {
	none, _ := observe(t, Options{}, perfbuf.Stats{})
	require.NotContains(t, none, "ringfold.samples")
	require.Contains(t, none, "ringfold.displaced_entries")
	s := perfbuf.Stats{}
	s.Doorbell.Err, s.Displaced.Err = errors.New("a"), errors.New("b")
	failed, _ := observe(t, Options{}, s)
	require.Equal(t, 1.0, failed["ringfold.doorbell_failed"])
	require.NotContains(t, failed, "ringfold.displaced_entries")
}

// Every value is promperf's, and Prometheus would call it what promperf does.
func TestSameAsPrometheus(t *testing.T) {
	suffix := map[string]string{"By": "_bytes", "s": "_seconds", "1": "_ratio"}
	for _, perCPU := range []bool{false, true} {
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(promperf.NewCollector(example, promperf.Options{PerCPU: perCPU})))
		families, err := registry.Gather()
		require.NoError(t, err)
		want := map[string][]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				want[f.GetName()] = append(want[f.GetName()], m.GetCounter().GetValue()+m.GetGauge().GetValue())
			}
			slices.Sort(want[f.GetName()])
		}
		got := map[string][]float64{}
		values, metrics := observe(t, Options{PerCPU: perCPU}, example())
		for key, value := range values {
			name, _, _ := strings.Cut(key, " ")
			called := "ringfold_" + name[len("ringfold."):] + suffix[metrics[name].Unit]
			if _, ok := metrics[name].Data.(metricdata.Sum[int64]); ok {
				called += "_total"
			}
			got[called] = append(got[called], value)
			slices.Sort(got[called])
		}
		require.Equal(t, want, got)
	}
}

// Two readers of one provider, told apart by an attribute; one of them goes.
func TestTwoReaders(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	register := func(name string, outputs int) (unregister func() error) {
		k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
		r, err := k.Open(perfbuf.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { r.Close() })
		for range outputs {
			require.NoError(t, k.Output(0, []byte("payload")))
		}
		stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
		require.NoError(t, err)
		require.NoError(t, stream.ForEach(func(perfbuf.Event) error { return nil }))
		registration, err := Register(provider, r.Stats, Options{Attributes: []attribute.KeyValue{attribute.String("map", name)}})
		require.NoError(t, err)
		return registration.Unregister
	}
	leave := register("a", 3)
	register("b", 4)
	values, _ := collect(t, reader)
	require.Equal(t, 3.0, values["ringfold.samples map=a"])
	require.Equal(t, 4.0, values["ringfold.samples map=b"])
	require.NoError(t, leave())
	values, _ = collect(t, reader)
	require.NotContains(t, values, "ringfold.samples map=a")
	require.Equal(t, 4.0, values["ringfold.samples map=b"])
}

func TestInvalidNamespace(t *testing.T) {
	_, err := Register(metric.NewMeterProvider(), func() perfbuf.Stats { return perfbuf.Stats{} }, Options{Namespace: "1 2"})
	require.ErrorContains(t, err, "name")
}
