// Package metrics serves what readers of maps count to Prometheus.
package metrics

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/promperf"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:embed dashboard.json
var dashboard string

// config is what the flags say.
type config struct {
	source.Flags
	cli.Output
	listen string
	perCPU bool
}

// Command is "ringfold metrics".
func Command() *cobra.Command {
	c := &config{}
	board := false
	cmd := &cobra.Command{
		Use:   "metrics [flags] [id N | name S | pinned PATH]...",
		Short: "Serve counts of events, losses and delays to Prometheus",
		Long: `Read maps in order, and serve what the reader counts at /metrics: events, losses, wakeups, barriers,
how full rings are, and how long events take to arrive. Each metric has the label map.

Name maps as for "ringfold tail". metrics reads the events, and discards them. Another reader of a
perf event array receives nothing from then on, until it is restarted, so metrics refuses such a map
without --steal. To export the counts of your own reader, use package perfbuf/promperf.`,
		Example: `  ringfold metrics name events --steal
  ringfold metrics --process execsnoop --steal --listen :9435 --per-cpu
  ringfold metrics --dashboard >dashboard.json    # for Grafana`,
		Args: c.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case board:
				_, err := io.WriteString(cmd.OutOrStdout(), dashboard)
				return err
			case len(c.Files) > 0:
				return cli.Usagef("only maps have metrics: ringfold stat counts a recording")
			case len(c.Flags.Command) > 0:
				return cli.Usagef("metrics runs no command: see ringfold stat")
			}
			return c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	c.Which(fs)
	c.Limits(fs)
	c.Order(fs)
	cli.Group(fs, "Output", func(fs *pflag.FlagSet) {
		fs.StringVar(&c.listen, "listen", "127.0.0.1:9435", "serve at this `address`; port 0 is any free one")
		fs.BoolVar(&c.perCPU, "per-cpu", false, "also label the metrics of rings by CPU")
		fs.BoolVar(&board, "dashboard", false, "print a dashboard for Grafana, and do nothing else")
		c.Output.Flags(fs)
	})
	c.Complete(cmd)
	return cmd
}

// run reads and serves until ctx ends.
func (c *config) run(ctx context.Context, stdout, stderr io.Writer) error {
	listener, err := net.Listen("tcp", c.listen) // before anybody is silenced for nothing
	if err != nil {
		return fmt.Errorf("%w: --listen says where else to serve", err)
	}
	defer listener.Close()
	set, err := c.Choose()
	if err != nil {
		return err
	}
	defer set.Close()
	registry, delays := c.registry(set)
	in, err := set.Open(perfbuf.Options{})
	if err != nil {
		return err
	}
	set.Announce()
	healthy, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	shutdown := serve(registry, listener, fail)
	defer shutdown()
	fmt.Fprintf(stderr, "ringfold metrics: serving http://%s/metrics\n", listener.Addr())

	err = set.Run(healthy, in, func(ev source.Event) error {
		if ev.Time() > 0 && ev.Kind() == perfbuf.KindSample {
			if delay, ok := delays.Load(ev.From); ok {
				delay.(prometheus.Histogram).Observe(float64(ev.Age()) / 1e9)
			}
		}
		return nil
	}, func() error { return nil })
	if err == nil && ctx.Err() == nil {
		err = context.Cause(healthy) // nil, or why it could not serve
	}
	return set.Finish(err, func() error { return c.summary(stdout, set) })
}

// registry has the counts of this process, and of all readers that are admitted. Events are counted
// in delays, a prometheus.Histogram for each source.
func (c *config) registry(set *source.Set) (registry *prometheus.Registry, delays *sync.Map) {
	registry, delays = prometheus.NewRegistry(), &sync.Map{}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	set.Admitted = func(from *source.Source) {
		labels := prometheus.Labels{"map": from.Called()}
		if from.Live != nil {
			labels = prometheus.Labels{"host": from.Host, "map": from.Name}
		}
		delay := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ringfold_event_delay_seconds", ConstLabels: labels,
			Help: "Time from an event to its being handled.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)})
		delays.Store(from, delay)
		for _, collector := range []prometheus.Collector{delay, promperf.NewCollector(from.Stats, promperf.Options{Labels: labels, PerCPU: c.perCPU})} {
			registry.Unregister(collector) // a host's recording of before: its counts begin again, as where a program restarts
			registry.MustRegister(collector)
		}
	}
	return registry, delays
}

// patience is how long a client may take to send a request, and to read the answer.
var patience = 30 * time.Second

// serve serves metrics until shutdown is called. If it cannot go on, it says why to failed.
func serve(registry *prometheus.Registry, listener net.Listener, failed func(error)) (shutdown func()) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadTimeout: patience, WriteTimeout: patience}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
	return func() {
		server.Close()
		<-ended
	}
}

// summary prints all that was counted, in a line.
func (c *config) summary(out io.Writer, set *source.Set) error {
	var events, lost, shed, late uint64
	for _, from := range set.All() {
		s := from.Reader.Stats()
		t := s.Total()
		events, lost, shed, late = events+t.Samples, lost+t.Lost, shed+t.Shed, late+s.Late
	}
	if c.Format == cli.JSON {
		return json.NewEncoder(out).Encode(map[string]any{"summary": map[string]any{
			"events": events, "lost": lost, "shed": shed, "late": late, "seconds": set.Elapsed().Seconds()}})
	}
	_, err := fmt.Fprintf(out, "%s events in %v, %s lost, %s late\n", cli.Count(events), set.Elapsed().Round(time.Millisecond), cli.Count(lost), cli.Count(late))
	return err
}
