package promperf

import (
	"errors"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// example has a number of its own in each field.
func example() perfbuf.Stats {
	s := perfbuf.Stats{
		Rings: []perfbuf.RingStats{{CPU: 0, Size: 4096, HighWater: 1024}, {CPU: 7, Size: 4096, HighWater: 3072}},
	}
	n := uint64(100)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Field(i)
			if f.Kind() != reflect.Struct && !f.IsZero() {
				continue
			}
			n++
			switch f.Kind() {
			case reflect.Uint64:
				f.SetUint(n)
			case reflect.Int, reflect.Int64: // durations too
				f.SetInt(int64(n))
			case reflect.Struct:
				fill(f)
			}
		}
	}
	for i := range s.Rings {
		fill(reflect.ValueOf(&s.Rings[i]).Elem())
	}
	s.Rings[0].CPU = 0
	s.Outputs.CPUs = make([]perfbuf.CPUOutputs, 1)
	fill(reflect.ValueOf(&s.Outputs.CPUs[0]).Elem())
	fill(reflect.ValueOf(&s).Elem())
	s.Barrier.Provider = "map-in-map"
	s.MaxLateness, s.Barrier.P50 = 250*time.Millisecond, time.Millisecond
	return s
}

func gather(t *testing.T, o Options, s perfbuf.Stats) map[string][]float64 {
	t.Helper()
	c := NewCollector(func() perfbuf.Stats { return s }, o)
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	families, err := r.Gather()
	require.NoError(t, err)
	all := map[string][]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			all[name] = append(all[name], m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	return all
}

// Every number of Stats is exported, once.
func TestComplete(t *testing.T) {
	s := example()
	var exported []float64
	for _, values := range gather(t, Options{PerCPU: true}, s) {
		exported = append(exported, values...)
	}
	seen := func(v float64) int {
		n := 0
		for _, e := range exported {
			if e == v {
				n++
			}
		}
		return n
	}
	var check func(v reflect.Value, name string)
	check = func(v reflect.Value, name string) {
		for i := range v.NumField() {
			f, name := v.Field(i), name+"."+v.Type().Field(i).Name
			if slices.Contains([]string{"Ring.CPU", "Ring.HighWater", "Outputs.CPU", "Outputs.Lane", "Outputs.Written", "Stats.Displaced.OwnedUntil"}, name) {
				continue // a label, a ratio, a sum, the rest of those attempted, a time
			}
			switch d := f.Interface().(type) {
			case time.Duration:
				require.GreaterOrEqual(t, seen(d.Seconds()), 1, name)
			case uint64:
				require.Equal(t, 1, seen(float64(d)), name)
			case int:
				require.GreaterOrEqual(t, seen(float64(d)), 1, name)
			default:
				if f.Kind() == reflect.Struct {
					check(f, name)
				}
			}
		}
	}
	check(reflect.ValueOf(s), "Stats")
	for _, ring := range s.Rings {
		check(reflect.ValueOf(ring), "Ring")
	}
	check(reflect.ValueOf(s.Outputs.CPUs[0]), "Outputs")
}

func TestLabels(t *testing.T) {
	s := example()
	s.Rings[0].Samples, s.Rings[1].Samples = 5, 6
	s.Rings[0].Used, s.Rings[1].Used = 10, 20

	sums := gather(t, Options{}, s)
	require.Equal(t, []float64{11}, sums["ringfold_samples_total"])
	require.Equal(t, []float64{30}, sums["ringfold_ring_used_bytes"])
	require.Equal(t, []float64{8192}, sums["ringfold_ring_size_bytes"])
	require.Equal(t, []float64{0.75}, sums["ringfold_ring_high_water_ratio"], "of the fullest")
	require.Equal(t, []float64{2}, sums["ringfold_rings"])
	require.Equal(t, []float64{1}, sums["ringfold_barrier_provider provider=map-in-map"])
	require.Equal(t, []float64{0.001}, sums["ringfold_barrier_p50_seconds"])
	require.Equal(t, []float64{float64(s.Outputs.CPUs[0].NoRing)}, sums["ringfold_outputs_refused_total reason=no_ring"])

	own := gather(t, Options{Namespace: "agent", PerCPU: true, Labels: prometheus.Labels{"map": "events"}}, s)
	require.Equal(t, []float64{5}, own["agent_samples_total cpu=0 map=events"])
	require.Equal(t, []float64{6}, own["agent_samples_total cpu=7 map=events"])
	require.Equal(t, []float64{0.25}, own["agent_ring_high_water_ratio cpu=0 map=events"])
	require.Equal(t, []float64{2}, own["agent_rings map=events"])
}

// Missing values are left out, and errors are 1.
func TestNothing(t *testing.T) {
	none := gather(t, Options{}, perfbuf.Stats{})
	for name := range none {
		require.False(t, strings.Contains(name, "samples") || strings.Contains(name, "provider") || strings.Contains(name, "refused_total reason"), name)
	}
	require.Equal(t, []float64{0}, none["ringfold_doorbell_failed"])
	s := perfbuf.Stats{}
	s.Doorbell.Err, s.Hotplug.Err, s.Displaced.Err = errors.New("a"), errors.New("b"), errors.New("c")
	failed := gather(t, Options{}, s)
	require.Equal(t, []float64{1}, failed["ringfold_doorbell_failed"])
	require.Equal(t, []float64{1}, failed["ringfold_hotplug_failed"])
	require.True(t, math.IsNaN(failed["ringfold_displaced_entries"][0]))
}

// docs/prometheus.md lists and explains all metrics.
func TestDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/prometheus.md")
	require.NoError(t, err)
	described := make(chan *prometheus.Desc, 100)
	NewCollector(nil, Options{}).Describe(described)
	close(described)
	fields := regexp.MustCompile(`fqName: "ringfold_(\w+)", help: "(.*?)",`)
	for d := range described {
		f := fields.FindStringSubmatch(d.String())
		require.Regexp(t, "\n\\| `"+f[1]+`(\{\w+\})?`+"` \\| (counter|gauge) \\| "+regexp.QuoteMeta(f[2])+` \|\n`, string(doc))
	}
}

// A real reader's.
func TestKernelReader(t *testing.T) {
	e := kerneltest.Load(t)
	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	cpu := r.Rings()[0].CPU()
	e.Emit(cpu, 42, 100)
	stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	require.NoError(t, stream.ForEach(func(perfbuf.Event) error { return nil }))
	require.Equal(t, []float64{42}, gather(t, Options{}, r.Stats())["ringfold_samples_total"])
	require.NoError(t, r.Close())
	require.Equal(t, []float64{42}, gather(t, Options{}, r.Stats())["ringfold_samples_total"], "final")
}
