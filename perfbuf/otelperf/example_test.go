package otelperf_test

import (
	"log"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/otelperf"
	"go.opentelemetry.io/otel/sdk/metric"
)

// A program's own provider, with the exporter of its choice as the reader.
func ExampleRegister() {
	var reader *perfbuf.Reader // perfbuf.Open
	provider := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	registration, err := otelperf.Register(provider, reader.Stats, otelperf.Options{PerCPU: true})
	if err != nil {
		log.Fatal(err)
	}
	defer registration.Unregister()
}
