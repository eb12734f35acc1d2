package otlp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	sdk "go.opentelemetry.io/otel/sdk/log"
	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	firstPause = 100 * time.Millisecond
	// longestPause bounds the time until a collector that is back gets records. gRPC's own default is 2 minutes.
	longestPause = 2 * time.Second
	// answerTime is how long a request waits for its answer before it is sent again.
	answerTime = 10 * time.Second
	// patience is how long after a signal, and after what the collector has taken last, the rest is given up.
	patience = 10 * time.Second
)

// sender hands requests to the collector, one after the other, and each until the collector has it.
type sender struct {
	to       *Target
	exporter sdk.Exporter
	ctx      context.Context // done: somebody wants the end
	note     func(format string, args ...any)

	patience time.Duration

	done   Stats     // what the collector has
	last   time.Time // when it has taken something last, or when the end was wanted
	away   bool      // and that has been said
	ending bool      // as ctx is done
	said   string    // by the collector, with its answers
}

func newSender(ctx context.Context, to *Target, note func(string, ...any)) (*sender, error) {
	s := &sender{to: to, ctx: ctx, note: note, patience: patience}
	options := []otlploggrpc.Option{
		otlploggrpc.WithEndpoint(to.address),
		otlploggrpc.WithTimeout(answerTime),
		otlploggrpc.WithMaxRequestSize(0),                              // batch keeps requests small
		otlploggrpc.WithRetry(otlploggrpc.RetryConfig{Enabled: false}), // send does, for longer than a minute
		otlploggrpc.WithDialOption(grpc.WithUnaryInterceptor(s.answer), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: longestPause},
			MinConnectTimeout: answerTime,
		})),
	}
	if to.tls != nil {
		options = append(options, otlploggrpc.WithTLSCredentials(credentials.NewTLS(to.tls)))
	} else {
		options = append(options, otlploggrpc.WithInsecure())
	}
	if len(to.headers) > 0 { // else those of OTEL_EXPORTER_OTLP_HEADERS
		options = append(options, otlploggrpc.WithHeaders(to.headers))
	}
	exporter, err := otlploggrpc.New(ctx, options...)
	s.exporter = exporter
	return s, err
}

// run sends what comes through the queue, to its end or the first error that another try does not mend.
func (s *sender) run(q *queue) {
	for items := q.take(); items != nil; items = q.take() {
		records := make([]sdk.Record, len(items))
		for i := range items {
			records[i] = items[i].record
		}
		if err := s.send(records); err != nil {
			q.fail(err)
			return
		}
		for _, i := range items {
			s.done.Counts.add(i.Counts)
		}
		q.sent(items)
	}
}

// send returns when the collector has the records, or will not get them.
func (s *sender) send(records []sdk.Record) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := s.exporter.Export(context.Background(), records)
		switch {
		case err == nil:
			if s.away {
				s.note("the collector at %s is back", s.to)
			}
			s.away, s.last = false, time.Now()
			return nil
		case tooLarge(err) && len(records) > 1:
			half := len(records) / 2
			if err := s.send(records[:half]); err != nil {
				return err
			}
			return s.send(records[half:])
		case !temporary(err):
			return s.refused(err)
		case !s.away:
			s.away = true
			s.note("waiting for the collector at %s: %s. It needs an otlp receiver with the protocol grpc", s.to, reason(err))
		}
		if s.late() {
			return fmt.Errorf("the collector at %s is away: %s", s.to, reason(err))
		}
		time.Sleep(pause)
	}
}

// late reports whether somebody wants the end, and has waited for long enough.
func (s *sender) late() bool {
	if s.ctx.Err() == nil {
		return false
	}
	if !s.ending {
		s.ending, s.last = true, time.Now()
		s.note("the collector at %s has %v more for what it lacks", s.to, s.patience)
	}
	return time.Since(s.last) > s.patience
}

// answer looks at what the collector answers, which the exporter only knows as an error.
func (s *sender) answer(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := call(ctx, method, request, reply, conn, options...)
	if got, ok := reply.(*logs.ExportLogsServiceResponse); ok && err == nil {
		if sent, ok := request.(proto.Message); ok {
			s.done.Bytes += uint64(proto.Size(sent))
		}
		if part := got.GetPartialSuccess(); part != nil {
			s.done.Rejected += uint64(max(part.GetRejectedLogRecords(), 0))
			if why := part.GetErrorMessage(); why != "" && s.said == "" {
				s.said = why
				s.note("the collector at %s says: %s", s.to, cli.Printable(why))
			}
			got.PartialSuccess = nil // another try would get the same
		}
	}
	return err
}

// temporary reports whether the same request may be taken later: by OTLP's list of codes. Nothing is given up because
// a quota is used up, either.
func temporary(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable:
		return !badTLS(err)
	case codes.ResourceExhausted:
		return !tooLarge(err)
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.DataLoss:
		return true
	}
	return false
}

// badTLS reports whether the two do not agree on certificates, or on TLS at all. Other failures of a handshake are those
// of a collector that comes or goes.
func badTLS(err error) bool {
	text := err.Error()
	return strings.Contains(text, "failed to verify certificate") || strings.Contains(text, "certificate required") ||
		strings.Contains(text, "not look like a TLS handshake")
}

// tooLarge reports whether the request is larger than the collector takes: in the words of gRPC for Go, C and Java.
func tooLarge(err error) bool {
	text := err.Error()
	return status.Code(err) == codes.ResourceExhausted &&
		(strings.Contains(text, "larger than max") || strings.Contains(text, "exceeds maximum"))
}

// refused says what to do about an error that another try does not mend.
func (s *sender) refused(err error) error {
	fix := "its log may say more"
	switch code := status.Code(err); {
	case code == codes.Unauthenticated || code == codes.PermissionDenied:
		fix = "give what it asks for as ?header=Authorization=..., or in OTEL_EXPORTER_OTLP_HEADERS"
	case code == codes.Unimplemented:
		fix = "name its otlp receiver in a pipeline for logs (service.pipelines.logs.receivers)"
	case tooLarge(err):
		fix = "raise max_recv_msg_size_mib of its otlp receiver"
	case code == codes.Unavailable && strings.Contains(err.Error(), "certificate"):
		fix = "name the authority of its certificate by ?tlsca=FILE"
	case code == codes.Unavailable:
		fix = "if it has no TLS, write otlp://"
	}
	return fmt.Errorf("the collector at %s refuses records: %s: %s", s.to, reason(err), fix)
}

// reason is an error without gRPC's frame around it.
func reason(err error) string {
	var of interface{ GRPCStatus() *status.Status }
	if errors.As(err, &of) {
		return cli.Printable(of.GRPCStatus().Message())
	}
	return cli.Printable(err.Error())
}

// reproach is what the collector said about records that it rejected.
func (s *sender) reproach() string {
	if s.said == "" {
		return "it does not say why"
	}
	return cli.Printable(s.said)
}
