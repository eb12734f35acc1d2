// Package otlp sends events to an OpenTelemetry collector, as log records, by OTLP over gRPC.
//
// target.go reads the address, otlp.go makes records of events and value.go of their fields, queue.go holds them, sender.go
// sends them until the collector has them.
//
// Nothing is dropped on the way. While the collector is away or slow, the queue fills, then Write blocks, nobody reads, and
// rings that run full count what they lose. The SDK's own BatchProcessor would drop instead.
package otlp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Counts are what records say: a consumer's sums are the same.
type Counts struct {
	Events  uint64 // samples
	Lost    uint64 // outputs that failed because a ring was full
	Shed    uint64 // outputs that programs left out
	Corrupt uint64 // stretches of ring memory that could not be read
}

func (c *Counts) add(d Counts) {
	c.Events += d.Events
	c.Lost += d.Lost
	c.Shed += d.Shed
	c.Corrupt += d.Corrupt
}

// Stats are what the collector has acknowledged.
type Stats struct {
	Counts
	Bytes    uint64 // of requests, before compression
	Rejected uint64 // records that it said it has not kept
}

// Options say where the events are from.
type Options struct {
	// Monotonic says that times of events are of this machine's CLOCK_MONOTONIC, not of a wall clock.
	Monotonic bool
	// Note prints a line for the user. The sender's goroutine calls it.
	Note func(format string, args ...any)
}

// Writer makes log records of events, and sends them. Its methods are for one goroutine.
type Writer struct {
	logger log.Logger
	caught caught
	queue  *queue
	sender *sender
	sent   chan struct{} // closed when the sender has ended

	utc     int64 // what is added to a time to have that of day, in ns
	run     string
	records uint64
	written Counts
}

// caught is a processor that keeps the record: the SDK makes one only for a processor.
type caught struct{ record sdk.Record }

func (c *caught) OnEmit(_ context.Context, r *sdk.Record) error       { c.record = r.Clone(); return nil }
func (c *caught) Enabled(context.Context, sdk.EnabledParameters) bool { return true }
func (c *caught) Shutdown(context.Context) error                      { return nil }
func (c *caught) ForceFlush(context.Context) error                    { return nil }

// New returns a Writer. It waits for nothing: the collector may come later. When ctx is done, what the collector lacks has
// 10 s more.
func New(ctx context.Context, to *Target, o Options) (*Writer, error) {
	w := &Writer{queue: newQueue(), sent: make(chan struct{})}
	id := make([]byte, 8)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	w.run = hex.EncodeToString(id)
	about, err := describe(ctx, to, o)
	if err != nil {
		return nil, err
	}
	// No limits: what the SDK cuts off would be gone. A struct has no two members of one name, so none are looked for.
	w.logger = sdk.NewLoggerProvider(sdk.WithResource(about), sdk.WithProcessor(&w.caught), sdk.WithAttributeCountLimit(-1),
		sdk.WithAttributeValueLengthLimit(-1), sdk.WithAllowKeyDuplication()).Logger("github.com/ringfold/ringfold", log.WithInstrumentationVersion(perfbuf.Version()))
	if w.sender, err = newSender(ctx, to, o.Note); err != nil {
		return nil, err
	}
	if o.Monotonic { // If the time of day is set meanwhile, events do not follow: so they stay in order.
		w.utc = time.Now().UnixNano() - int64(perfbuf.Now())
	}
	go func() {
		defer close(w.sent)
		w.sender.run(w.queue)
	}()
	return w, nil
}

// describe is the resource: who sends this.
func describe(ctx context.Context, to *Target, o Options) (*resource.Resource, error) {
	options := []resource.Option{resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", "ringfold")), resource.WithFromEnv()}
	if o.Monotonic { // a recording may be another host's
		options = append(options, resource.WithHost())
	}
	if to.Service != "" {
		options = append(options, resource.WithAttributes(attribute.String("service.name", to.Service)))
	}
	about, err := resource.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}

// Write queues an event. It blocks while the queue is full, and returns the error that ended the sender.
func (w *Writer) Write(ev source.Event) error {
	var r log.Record
	w.records++
	kind, name := ev.Kind(), eventName(ev)
	attributes := make([]attribute.KeyValue, 0, 8)
	attributes = append(attributes, attribute.String("ringfold.kind", kind.String()), attribute.String("ringfold.source", utf8Only(ev.From.Called())),
		attribute.String("log.record.uid", w.run+"-"+strconv.FormatUint(w.records, 10)))
	if ev.From.Host != "" {
		attributes = append(attributes, attribute.String("host.name", utf8Only(ev.From.Host)))
	}
	if ev.CPU() >= 0 {
		attributes = append(attributes, attribute.Int("cpu.logical_number", ev.CPU()))
	}
	if ev.Late() {
		attributes = append(attributes, attribute.Bool("ringfold.late", true))
	}
	i := item{}
	r.SetSeverity(log.SeverityWarn)
	switch kind {
	case perfbuf.KindSample:
		i.Events = 1
		r.SetSeverity(log.SeverityInfo)
	case perfbuf.KindLost, perfbuf.KindShed:
		i.Lost, name = ev.Lost(), "ringfold.lost"
		if kind == perfbuf.KindShed {
			i.Lost, i.Shed, name = 0, ev.Lost(), "ringfold.shed"
		}
		attributes = append(attributes, attribute.Int64("ringfold.count", int64(ev.Lost())))
		if ev.Reason() != "" {
			attributes = append(attributes, attribute.String("ringfold.reason", utf8Only(ev.Reason())))
		}
		if ev.LostAfter() != 0 {
			attributes = append(attributes, attribute.Int64("ringfold.after", w.day(ev.LostAfter()).UnixNano()))
		}
		if ev.Counted() {
			attributes = append(attributes, attribute.Int("ringfold.lane", ev.Lane()))
		}
	case perfbuf.KindCorrupt:
		i.Corrupt, name = 1, "ringfold.corrupt"
		attributes = append(attributes, attribute.Int("ringfold.count", 1))
	default:
		return nil
	}
	var body attribute.Value
	body, i.size = content(ev)
	r.SetEventName(name)
	r.SetSeverityText(r.Severity().String())
	r.SetBody(body)
	r.AddAttributes(attributes...)
	r.SetObservedTimestamp(time.Now())
	if ev.Time() != 0 {
		r.SetTimestamp(w.day(ev.Time()))
	}
	w.logger.Emit(context.Background(), r)
	i.record = w.caught.record
	w.written.add(i.Counts)
	return w.queue.put(i)
}

// eventName is that of a sample's type, or else of its source.
func eventName(ev source.Event) string {
	if d := ev.From.Decoder; d != nil {
		return utf8Only(strings.TrimPrefix(strings.TrimPrefix(d.Name, "struct "), "union "))
	}
	return utf8Only(ev.From.Name)
}

// content is the body of an event's record, and about how many bytes it takes.
func content(ev source.Event) (body attribute.Value, size int) {
	switch {
	case ev.Kind() != perfbuf.KindSample:
		text := fmt.Sprintf("%d outputs failed, as the ring was full", ev.Lost())
		switch {
		case ev.Kind() == perfbuf.KindShed:
			text = fmt.Sprintf("programs left out %d outputs, to keep room for other lanes", ev.Lost())
		case ev.Kind() == perfbuf.KindCorrupt:
			text = ev.Err().Error()
		case ev.Reason() != "":
			text = utf8Only(ev.Reason())
		}
		return attribute.StringValue(text), len(text)
	case ev.Fields != nil:
		return value(ev.Fields)
	}
	return attribute.ByteSliceValue(ev.Bytes()), len(ev.Bytes())
}

func (w *Writer) day(ns uint64) time.Time { return time.Unix(0, int64(ns)+w.utc) }

// Err returns the error that ended the sender, nil if it goes on. It does not block.
func (w *Writer) Err() error { return w.queue.failed() }

// Close waits until the collector has everything, and returns what keeps it from that. Stats are final then.
func (w *Writer) Close() error {
	w.queue.close()
	<-w.sent
	err := errors.Join(w.queue.failed(), w.sender.exporter.Shutdown(context.Background()))
	if missing := w.written.Events - w.sender.done.Events; err != nil && missing > 0 {
		err = fmt.Errorf("%w. It lacks %d events that were read", err, missing)
	}
	if n := w.sender.done.Rejected; n > 0 {
		err = errors.Join(err, fmt.Errorf("the collector at %s has rejected %d records: %s: its log may say more", w.sender.to, n, w.sender.reproach()))
	}
	return err
}

// Stats returns what the collector has. Call it after Close.
func (w *Writer) Stats() Stats { return w.sender.done }
