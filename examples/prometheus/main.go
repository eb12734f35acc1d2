// Prometheus reads switches of threads on all CPUs, in the order of time, and serves what the reader has counted, and how long
// events have taken to get here, at /metrics.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aquasecurity/libbpfgo"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/promperf"
	"golang.org/x/sys/unix"
)

const usage = `Usage: prometheus [flags]

Reads all switches of threads, in the order of time, and serves metrics for Prometheus. It needs root, or CAP_BPF and
CAP_PERFMON. Ctrl-C ends it.

  -listen ADDRESS  where (default 127.0.0.1:9435); port 0 is any that is free
  -per-cpu         metrics of rings for each CPU: as many time series for each of these as there are CPUs
  -version         print the versions of ringfold and libbpf

For example:

  prometheus &
  curl -s http://127.0.0.1:9435/metrics | grep ringfold_samples_total

A dashboard for Grafana is in dashboard.json.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. It returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("prometheus", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	listen := flags.String("listen", "127.0.0.1:9435", "")
	perCPU := flags.Bool("per-cpu", false, "")
	version := flags.Bool("version", false, "")
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "prometheus: %v\n%s", err, usage)
		return 2
	case *version:
		fmt.Fprintln(stdout, perfbuf.Version())
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := follow(ctx, *listen, *perCPU, stdout); err != nil {
		fmt.Fprintln(stderr, "prometheus:", err)
		return 1
	}
	return 0
}

//go:embed switches.bpf.o
var object []byte

// follow reads and serves until ctx ends.
func follow(ctx context.Context, address string, perCPU bool, stdout io.Writer) error {
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: func(int, string) {}}) // errors say as much
	module, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "switches", SkipMemlockBump: true})
	if err != nil {
		return err
	}
	defer module.Close()
	if err := module.BPFLoadObject(); errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w: uid %d may not load BPF programs: run it as root, or grant CAP_BPF and CAP_PERFMON", err, os.Getuid())
	} else if err != nil {
		return err
	}
	events, err := module.GetMap("events")
	if err != nil {
		return err
	}
	reader, err := perfbuf.Open(events.FileDescriptor(), perfbuf.Options{})
	if err != nil {
		return err
	}
	defer reader.Close()
	stream, err := reader.Ordered(perfbuf.OrderOptions{})
	if err != nil {
		return err
	}
	defer stream.Close()

	registry := prometheus.NewRegistry()
	delay := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "event_delay_seconds", Help: "Time from an event to its being handled.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)})
	registry.MustRegister(promperf.NewCollector(reader.Stats, promperf.Options{PerCPU: perCPU}), delay,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	shutdown, err := serve(registry, address, stdout, cancel)
	if err != nil {
		return err
	}
	defer shutdown()

	if err := module.AttachPrograms(); err != nil {
		return err
	}
	err = stream.Run(ctx, func(ev perfbuf.Event) error {
		if ev.Kind() == perfbuf.KindSample {
			delay.Observe(float64(now()-ev.Time()) / 1e9)
		}
		return ev.Err()
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// now is the clock of events' times, in ns.
func now() uint64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano())
}

// serve serves the registry's metrics beside the caller. If it cannot go on, it says why to failed.
func serve(registry *prometheus.Registry, address string, stdout io.Writer, failed func(error)) (shutdown func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
	fmt.Fprintf(stdout, "metrics are at http://%s/metrics\n", listener.Addr())
	return func() {
		server.Close()
		<-ended
	}, nil
}
