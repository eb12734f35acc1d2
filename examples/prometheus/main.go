// Prometheus reads switches of threads on all CPUs, in order of time, and serves what the reader counts, and how long events
// take to get here, at /metrics.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/aquasecurity/libbpfgo"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/promperf"
)

//go:embed switches.bpf.o
var object []byte

func main() {
	listen := flag.String("listen", "127.0.0.1:9435", "where to serve; port 0 is any that is free")
	perCPU := flag.Bool("per-cpu", false, "label the metrics of rings by CPU")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: func(int, string) {}}) // errors say as much
	module := must(libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, SkipMemlockBump: true}))
	must(0, module.BPFLoadObject())
	reader := must(perfbuf.Open(must(module.GetMap("events")).FileDescriptor(), perfbuf.Options{}))
	stream := must(reader.Stream(perfbuf.StreamOptions{}))

	// The reader's own counts, and a histogram of this program's.
	delay := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ringfold_event_delay_seconds",
		Help: "Time from an event to its being handled.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)})
	registry := prometheus.NewRegistry()
	registry.MustRegister(promperf.NewCollector(reader.Stats, promperf.Options{PerCPU: *perCPU}), delay)
	listener := must(net.Listen("tcp", *listen))
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go func() { log.Fatal(http.Serve(listener, nil)) }()
	fmt.Printf("metrics are at http://%s/metrics\n", listener.Addr())

	must(0, module.AttachPrograms())
	observe := func(ev perfbuf.Event) error {
		if ev.Kind() == perfbuf.KindSample {
			delay.Observe(float64(perfbuf.Now()-ev.Time()) / 1e9)
		}
		return ev.Err()
	}
	if err := stream.Run(ctx, observe); ctx.Err() == nil {
		log.Fatal(err)
	}
	must(0, stream.Shutdown(context.Background(), observe))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
