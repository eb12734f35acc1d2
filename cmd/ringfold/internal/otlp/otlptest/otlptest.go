// Package otlptest is a collector for tests: it takes OTLP's log records by gRPC, and keeps them.
package otlptest

import (
	"context"
	"net"
	"sync"

	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	pb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
)

// Request is what a client sends.
type Request = logs.ExportLogsServiceRequest

// Answer is what it gets. A zero one says that all is well.
type Answer = logs.ExportLogsServiceResponse

// PartialSuccess is in an Answer that does not say that all is well.
type PartialSuccess = logs.ExportLogsPartialSuccess

// Collector is one that runs.
type Collector struct {
	logs.UnimplementedLogsServiceServer
	Address string // host:port

	server *grpc.Server
	answer func(context.Context, *Request) (*Answer, error)

	mu       sync.Mutex
	requests []*Request
}

// Start starts a collector on an address such as 127.0.0.1:0. Unless answer is nil, it says what becomes of a request:
// with an error, the collector does not keep it.
func Start(address string, answer func(context.Context, *Request) (*Answer, error), o ...grpc.ServerOption) (*Collector, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Collector{Address: l.Addr().String(), server: grpc.NewServer(o...), answer: answer}
	logs.RegisterLogsServiceServer(c.server, c)
	go c.server.Serve(l)
	return c, nil
}

// URL is its address as one of ringfold record -w.
func (c *Collector) URL() string { return "otlp://" + c.Address }

// Stop ends it, and the requests that it has not answered.
func (c *Collector) Stop() { c.server.Stop() }

// Export is the service.
func (c *Collector) Export(ctx context.Context, r *Request) (*Answer, error) {
	answer := &Answer{}
	if c.answer != nil {
		var err error
		if answer, err = c.answer(ctx, r); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	return answer, nil
}

// Requests are those that it has kept.
func (c *Collector) Requests() []*Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Request{}, c.requests...)
}

// Records are those of all requests that it has kept, in order.
func (c *Collector) Records() (all []*pb.LogRecord) {
	for _, r := range c.Requests() {
		for _, resource := range r.GetResourceLogs() {
			for _, scope := range resource.GetScopeLogs() {
				all = append(all, scope.GetLogRecords()...)
			}
		}
	}
	return all
}
