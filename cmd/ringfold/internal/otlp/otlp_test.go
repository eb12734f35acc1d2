package otlp

import (
	"context"
	"encoding/pem"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/otlp/otlptest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// write has a writer take events of a simulated kernel with payloads of that size.
func write(t *testing.T, w *Writer, count, size int) {
	t.Helper()
	k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
	r, err := k.Open(perfbuf.Options{})
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	from := &source.Source{Target: &bpfmaps.Target{Map: bpfmaps.Map{Name: "events"}}}
	for range count {
		require.NoError(t, k.Output(0, make([]byte, size)))
		if s.ForEach(func(ev perfbuf.Event) error { return w.Write(source.Event{Event: ev, From: from}) }) != nil {
			return // Close says why
		}
	}
}

// collector is one until the test ends.
func collector(t *testing.T, answer func(context.Context, *otlptest.Request) (*otlptest.Answer, error), o ...grpc.ServerOption) *otlptest.Collector {
	t.Helper()
	c, err := otlptest.Start("127.0.0.1:0", answer, o...)
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	return c
}

func writer(t *testing.T, ctx context.Context, address string) *Writer {
	t.Helper()
	to, err := Parse(address)
	require.NoError(t, err)
	w, err := New(ctx, to, Options{Note: t.Logf})
	require.NoError(t, err)
	return w
}

// While the collector does not answer, memory is bounded, and Write waits.
func TestBounded(t *testing.T) {
	release := make(chan struct{})
	c := collector(t, func(ctx context.Context, _ *otlptest.Request) (*otlptest.Answer, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &otlptest.Answer{}, ctx.Err()
	})
	w := writer(t, t.Context(), c.URL())
	const count, size = 3000, 8 << 10
	most, watched := 0, make(chan struct{})
	go func() {
		defer close(watched)
		defer close(release)
		for full := false; !full; time.Sleep(time.Millisecond) {
			w.queue.mu.Lock()
			most = max(most, w.queue.bytes)
			full = w.queue.bytes+size+recordBytes > queueBytes
			w.queue.mu.Unlock()
		}
	}()
	write(t, w, count, size)
	<-watched
	require.NoError(t, w.Close())
	require.LessOrEqual(t, most, queueBytes)
	require.EqualValues(t, count, w.Stats().Events)
	require.GreaterOrEqual(t, len(c.Records()), count) // a request that had no answer in time was sent again
}

// Each request is one that collectors take.
func TestRequests(t *testing.T) {
	c := collector(t, nil)
	w := writer(t, t.Context(), c.URL())
	write(t, w, 1500, 40)
	write(t, w, 150, 32<<10)
	require.NoError(t, w.Close())
	require.Len(t, c.Records(), 1650)
	for _, r := range c.Requests() {
		require.LessOrEqual(t, len(r.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()), batchRecords)
	}
}

// A collector that takes less in one request gets less.
func TestSmallRequests(t *testing.T) {
	c := collector(t, nil, grpc.MaxRecvMsgSize(10<<10))
	w := writer(t, t.Context(), c.URL())
	write(t, w, 600, 40)
	require.NoError(t, w.Close())
	require.Len(t, c.Records(), 600)
	require.EqualValues(t, 600, w.Stats().Events)

	w = writer(t, t.Context(), c.URL())
	write(t, w, 3, 20<<10)
	err := w.Close()
	require.ErrorContains(t, err, "max_recv_msg_size_mib")
	require.ErrorContains(t, err, "It lacks 3 events")
}

// Errors that OTLP calls temporary are none in the end.
func TestRetry(t *testing.T) {
	failures := []codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded}
	c := collector(t, func(context.Context, *otlptest.Request) (*otlptest.Answer, error) {
		if len(failures) == 0 {
			return &otlptest.Answer{}, nil
		}
		code := failures[0]
		failures = failures[1:]
		return nil, status.Error(code, "not now")
	})
	w := writer(t, t.Context(), c.URL())
	write(t, w, 20, 40)
	require.NoError(t, w.Close())
	require.Len(t, c.Records(), 20)
}

// Others end it, with what to do.
func TestRefused(t *testing.T) {
	for code, fix := range map[codes.Code]string{
		codes.Unauthenticated:  "?header=Authorization",
		codes.PermissionDenied: "OTEL_EXPORTER_OTLP_HEADERS",
		codes.Unimplemented:    "service.pipelines.logs.receivers",
		codes.InvalidArgument:  "its log may say more",
	} {
		c := collector(t, func(context.Context, *otlptest.Request) (*otlptest.Answer, error) {
			return nil, status.Error(code, "no\x1b[2J")
		})
		w := writer(t, t.Context(), c.URL())
		write(t, w, 20, 40)
		err := w.Close()
		require.ErrorContains(t, err, "the collector at "+c.URL()+` refuses records: no\u001b[2J: `)
		require.ErrorContains(t, err, fix)
		require.ErrorContains(t, err, "It lacks 20 events")
		require.Zero(t, w.Stats().Events)
	}
}

func TestRejected(t *testing.T) {
	c := collector(t, func(_ context.Context, r *otlptest.Request) (*otlptest.Answer, error) {
		return &otlptest.Answer{PartialSuccess: &otlptest.PartialSuccess{RejectedLogRecords: 2, ErrorMessage: "too old"}}, nil
	})
	w := writer(t, t.Context(), c.URL())
	write(t, w, 20, 40)
	require.ErrorContains(t, w.Close(), "has rejected 2 records: too old")
	require.Len(t, c.Records(), 20, "sent once")
	require.EqualValues(t, 2, w.Stats().Rejected)
}

// Without a collector, the end is not waited for without end.
func TestAway(t *testing.T) {
	c := collector(t, nil)
	c.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	w := writer(t, ctx, c.URL())
	w.sender.patience = 0
	write(t, w, 20, 40)
	cancel()
	err := w.Close()
	require.ErrorContains(t, err, "is away")
	require.ErrorContains(t, err, "It lacks 20 events")
	require.ErrorContains(t, w.Err(), "is away")
}

func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o644))
	c := collector(t, nil, grpc.Creds(credentials.NewTLS(web.TLS.Clone())))
	secure := strings.Replace(c.URL(), "otlp:", "otlps:", 1)

	w := writer(t, t.Context(), secure+"?tlsca="+ca)
	write(t, w, 20, 40)
	require.NoError(t, w.Close())
	require.Len(t, c.Records(), 20)

	w = writer(t, t.Context(), secure)
	write(t, w, 1, 40)
	require.ErrorContains(t, w.Close(), "name the authority of its certificate by ?tlsca=FILE")

	w = writer(t, t.Context(), strings.Replace(collector(t, nil).URL(), "otlp:", "otlps:", 1))
	write(t, w, 1, 40)
	require.ErrorContains(t, w.Close(), "if it has no TLS, write otlp://")
}

func TestValues(t *testing.T) {
	v, _ := value(source.Fields{{Name: "small", Value: uint64(7)}, {Name: "large", Value: uint64(math.MaxUint64)}, {Name: "negative", Value: int64(-1)},
		{Name: "text", Value: "a"}, {Name: "no text", Value: "\xff"}, {Name: "in\xff", Value: source.Fields{{Name: "is", Value: true}}}, {Name: "f", Value: 0.5}})
	got := map[string]any{}
	for _, kv := range v.AsMap() {
		got[string(kv.Key)] = kv.Value.AsInterface()
	}
	in := got["in\uFFFD"]
	delete(got, "in\uFFFD")
	require.Equal(t, map[string]any{"small": int64(7), "large": "18446744073709551615", "negative": int64(-1), "text": "a", "no text": []byte{0xff}, "f": 0.5}, got)
	require.NotNil(t, in)
}
