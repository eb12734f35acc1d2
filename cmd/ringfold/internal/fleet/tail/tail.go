package tail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/connect"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// Options says what to read, and how.
type Options struct {
	MergeOptions
	Stream string            // of JetStream; its subjects are STREAM.HOST
	Only   []string          // hosts; empty: all
	Since  time.Time         // read what was stored from then on; zero: what comes from now on
	All    bool              // read all that the stream has, instead
	Once   bool              // end when all that the stream has is read
	ToEnd  bool              // end when all hosts have ended in good order
	Note   func(text string) // gets errors, as often as they happen
}

// Sink receives the events.
type Sink interface {
	Put(Item) error
	Flush() error // is called when there is nothing to put for now
}

// ErrEnough is returned by a Sink that wants no more. Run then ends without an error.
var ErrEnough = errors.New("enough")

// pulled is how many messages come here before they are asked for. What is more waits at the
// server, however slow the Sink is.
const pulled = 100

// margin is by how much the clocks of hosts may be ahead of the server's when Since is in terms of
// hosts'.
const margin = 2 * time.Second

// look is how often it is checked whether hosts are silent.
const look = 50 * time.Millisecond

// Run reads until ctx ends, and then hands over what it still holds. While there is no server it
// waits for one.
func Run(ctx context.Context, nc *nats.Conn, o Options, sink Sink) (Result, error) {
	o.Hosts = append(slices.Clone(o.Hosts), o.Only...)
	r := &reader{o: o, nc: nc, sink: sink, merger: newMerger(o.MergeOptions, sink.Put), subjects: map[string]string{}, now: time.Now()}
	err := r.run(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = nil // as it was asked for
	}
	waiting := r.merger.Waiting()
	if err == nil {
		r.merger.Drain()
		err = r.flush()
	}
	if errors.Is(err, ErrEnough) {
		err = sink.Flush()
	}
	return Result{Stats: r.merger.Stats(), Malformed: r.malformed, Unread: r.merger.Buffered(), Waiting: waiting}, err
}

type reader struct {
	o         Options
	nc        *nats.Conn
	sink      Sink
	merger    *merger
	malformed uint64
	subjects  map[string]string // whose they are, as batches say

	// The clock by which hosts are silent is that of the messages' time stamps. When there are no
	// more, it goes on while we wait. So a log that was written last week is merged as it was then,
	// and being slow ourselves makes no host silent.
	now    time.Time
	begun  bool // a message has come
	caught bool // all that the stream had is read
}

func (r *reader) run(ctx context.Context) error {
	consumer, err := r.consumer(ctx)
	if err != nil {
		return err
	}
	if info := consumer.CachedInfo(); info != nil && info.NumPending == 0 {
		r.caught = true
		if r.o.Once {
			return nil
		}
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(pulled))
	if err != nil {
		return fmt.Errorf("reading stream %s: %w", r.o.Stream, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	come := make(chan jetstream.Msg)
	var failed error
	go func() {
		defer close(come)
		for {
			msg, err := messages.Next(jetstream.NextContext(ctx))
			if err != nil {
				failed = err
				return
			}
			select {
			case come <- msg:
			case <-ctx.Done(): // Next says so too
			}
		}
	}()
	defer func() {
		cancel()
		stopped := make(chan struct{})
		go func() {
			messages.Stop()
			for range come {
			}
			close(stopped)
		}()
		if r.nc.IsConnected() { // else it goes through its timeouts first
			<-stopped
		}
	}()

	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		waits := time.Now()
		select {
		case msg, ok := <-come:
			if !ok {
				return failed
			}
			if err := r.message(msg); err != nil {
				return err
			}
			if r.o.Once && r.caught || r.o.ToEnd && r.merger.Ended() {
				return nil
			}
		case <-ticker.C:
			if r.caught && r.nc.IsConnected() {
				r.now = r.now.Add(time.Since(waits))
			}
			r.merger.Advance(r.now)
			if err := r.flush(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// consumer waits for a server that has the stream.
func (r *reader) consumer(ctx context.Context) (consumer jetstream.Consumer, err error) {
	js, err := jetstream.New(r.nc)
	if err != nil {
		return nil, err
	}
	err = connect.Retry(ctx, r.nc, "reading stream "+r.o.Stream, r.o.Note, r.explain, func(ctx context.Context) error {
		stream, err := js.Stream(ctx, r.o.Stream)
		if err != nil {
			return err
		}
		consumer, err = stream.OrderedConsumer(ctx, r.config(stream.CachedInfo().State))
		return err
	})
	return consumer, err
}

// explain returns what to say of an error that trying again does not mend, and nil for others.
func (r *reader) explain(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("there is no stream %s at %s: start an agent, which makes it, or name another one by --stream", r.o.Stream, r.nc.ConnectedAddr())
	case errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("the server at %s has no JetStream: run nats-server with -js: %w", r.nc.ConnectedAddr(), err)
	case errors.Is(err, jetstream.ErrInvalidStreamName):
		return fmt.Errorf("--stream %q: %w", r.o.Stream, err)
	}
	return nil
}

// config says which messages of the stream to read.
func (r *reader) config(state jetstream.StreamState) (config jetstream.OrderedConsumerConfig) {
	for _, host := range r.o.Only {
		config.FilterSubjects = append(config.FilterSubjects, wire.Subject(r.o.Stream, host))
	}
	slices.Sort(config.FilterSubjects)
	config.FilterSubjects = slices.Compact(config.FilterSubjects)
	switch {
	case r.o.All:
		config.DeliverPolicy = jetstream.DeliverAllPolicy
	case !r.o.Since.IsZero():
		if state.FirstSeq > 1 && state.FirstTime.After(r.o.Since) {
			r.o.Note(fmt.Sprintf("stream %s has dropped what was stored before %s, as its limits say", r.o.Stream, state.FirstTime.Local().Format(time.DateTime)))
		}
		start := r.o.Since.Add(-margin)
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &start
	default:
		// Not DeliverNewPolicy: a consumer that is made anew before the first message has come
		// would begin at a later now.
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, state.LastSeq+1
	}
	return config
}

// message merges a message.
func (r *reader) message(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("reading stream %s: %w", r.o.Stream, err)
	}
	switch stored := meta.Timestamp; {
	case !r.begun || stored.Sub(r.now) > r.merger.o.Dead/2: // it is not one host that was silent, but the server
		r.begun = true
		r.now = stored
		r.merger.Resume(r.now)
	case stored.After(r.now):
		r.now = stored
	}
	r.caught = meta.NumPending == 0
	// The server's permissions are for subjects: a batch must be of its subject's host.
	b, err := wire.Unmarshal(msg.Data())
	if err == nil && wire.Subject(r.o.Stream, b.Host) != msg.Subject() {
		err = fmt.Errorf("%w: it says that it is of host %q, and was published to %s", wire.ErrMalformed, b.Host, msg.Subject())
	}
	if err != nil {
		r.malformed++
		host := cmp.Or(r.subjects[msg.Subject()], strings.TrimPrefix(msg.Subject(), r.o.Stream+"."))
		r.merger.Malformed(host, fmt.Sprintf("message %d of the stream: %v", meta.Sequence.Stream, err), r.now)
	} else if len(r.o.Only) == 0 || slices.Contains(r.o.Only, b.Host) { // subjects of hosts may be the same
		r.subjects[msg.Subject()] = b.Host
		r.merger.Feed(b, r.now)
	}
	r.merger.Advance(r.now)
	if r.caught {
		return r.flush()
	}
	return r.merger.Err()
}

func (r *reader) flush() error {
	if err := r.merger.Err(); err != nil {
		return err
	}
	return r.sink.Flush()
}
