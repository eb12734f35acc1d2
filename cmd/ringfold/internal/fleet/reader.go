package fleet

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
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// ReadOptions are how a stream is read. All but the last two are parameters of an Address.
type ReadOptions struct {
	Only   []string  // hosts; empty: all
	Hosts  []string  // waited for from the start, as if they had been heard of; those of Only are, too
	Since  time.Time // read what was stored from then on; zero: what comes from now on
	All    bool      // read all that the stream has, instead
	Once   bool      // end when all that the stream has is read
	Dead   time.Duration
	Buffer int // how many events are held back at most

	ToEnd bool              // end when all hosts have ended in good order
	Note  func(text string) // gets failures and recoveries, from any goroutine; not nil
}

// pulled is how many messages come here before they are asked for. What is more waits at the
// server, however slow the events' reader is.
const pulled = 100

// margin is by how much the clocks of hosts may be ahead of the server's when Since is in terms of
// hosts'.
const margin = 2 * time.Second

// Reader reads the recordings of a stream's hosts.
type Reader struct {
	o        ReadOptions
	stream   string
	nc       *nats.Conn
	js       jetstream.JetStream
	merger   *merger
	subjects map[string]string // whose they are, as messages say
	stopped  context.Context
	stop     context.CancelFunc
	done     chan struct{}
	err      error // of run

	// The merger's clock is that of the messages' time stamps. When there are no more, it goes on
	// while we wait. So a log that was written last week is merged as it was then, and being slow
	// ourselves makes no host silent.
	begun  bool // a message has come
	caught bool // all that the stream had is read
}

// OpenReader connects, and calls admit with each recording that comes, at once with one of no host
// that has nothing but gaps: it is to open readers of the recording's events, and to add them to the
// stream that merges them. Nothing is read before Start. While there is no server it waits for one.
func (a Address) OpenReader(admit func(host string, l *perfdata.Live) error) (*Reader, error) {
	o := a.Read
	o.Hosts = append(slices.Clone(o.Hosts), o.Only...)
	r := &Reader{o: o, stream: a.Stream, subjects: map[string]string{}, done: make(chan struct{})}
	r.stopped, r.stop = context.WithCancel(context.Background())
	var err error
	if r.nc, err = a.Connect("ringfold", o.Note); err != nil {
		return nil, err
	}
	if r.js, err = jetstream.New(r.nc); err == nil {
		r.merger, err = newMerger(o, time.Now(), admit, r.head)
	}
	if err != nil {
		r.nc.Close()
		return nil, err
	}
	return r, nil
}

// Start begins to read. The events' stream ends, with io.EOF, when all is read, after an error and
// after Stop.
func (r *Reader) Start() {
	go func() {
		defer close(r.done)
		defer r.nc.Close()
		err := r.run(r.stopped)
		if err != nil && r.stopped.Err() == nil {
			r.err = err
		}
		r.merger.end()
	}()
}

// Settled is closed when those hosts have been heard of that are alive, and awaited ones have come, or
// are given up, or reading has ended.
func (r *Reader) Settled() <-chan struct{} { return r.merger.ready }

// Stop ends reading: what has come is still delivered. It may be called more than once, after Start.
func (r *Reader) Stop() {
	r.stop()
	<-r.done
}

// Result ends reading, if it has not ended, and returns what is known. Of each host, delivered has
// the Events and Lost. The error is one that trying again did not mend.
func (r *Reader) Result(delivered map[string]Host) (Result, error) {
	r.Stop()
	res := r.merger.result
	res.Hosts = r.merger.known(delivered)
	res.explain(r.o.Since)
	return res, r.err
}

func (r *Reader) run(ctx context.Context) error {
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
		return fmt.Errorf("reading stream %s: %w", r.stream, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	come := make(chan jetstream.Msg)
	var failed error
	go func() {
		defer close(come)
		defer messages.Stop()
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
		for r.nc.IsConnected() { // else it goes through its timeouts first
			if _, more := <-come; !more {
				return
			}
		}
	}()

	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		waits := time.Now()
		from := come
		if r.merger.held > r.o.Buffer && !r.merger.blocked {
			from = nil // whoever reads the events is slow: messages wait at the server
		}
		select {
		case msg, ok := <-from:
			if !ok {
				return failed
			}
			if err := r.message(msg); err != nil {
				return err
			}
			if r.o.Once && r.caught || r.o.ToEnd && r.merger.ended() {
				return nil
			}
		case <-ticker.C:
			if r.caught && from != nil && r.nc.IsConnected() {
				r.merger.tick(r.merger.now.Add(min(time.Since(waits), 2*look))) // longer, it was we who stood still
			}
			r.merger.look()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Reader) retry(final func(error) error) retry {
	return retry{what: "reading stream " + r.stream, note: r.o.Note, conn: r.nc, final: final}
}

// consumer waits for a server that has the stream.
func (r *Reader) consumer(ctx context.Context) (consumer jetstream.Consumer, err error) {
	err = r.retry(r.explain).do(ctx, func() error {
		stream, err := r.js.Stream(ctx, r.stream)
		if err != nil {
			return err
		}
		consumer, err = stream.OrderedConsumer(ctx, r.config(stream.CachedInfo().State))
		return err
	})
	return consumer, err
}

// head gets the last head of a message's log, which is in the stream as long as the log goes on.
func (r *Reader) head(m *message) (data []byte, err error) {
	subject := func(log string) string {
		return (&message{Host: m.Host, place: place{Log: log}, Head: true}).subject(r.stream)
	}
	gone := func(err error) error {
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("the stream has dropped it, so its events cannot be read: %w", err)
		}
		return nil
	}
	err = r.retry(gone).do(r.stopped, func() error {
		stream, err := r.js.Stream(r.stopped, r.stream)
		if err != nil {
			return err
		}
		raw, err := stream.GetLastMsgForSubject(r.stopped, subject(m.Log))
		if errors.Is(err, jetstream.ErrMsgNotFound) && m.Prior != "" { // spool.Renew begins logs in the middle of others
			raw, err = stream.GetLastMsgForSubject(r.stopped, subject(m.Prior))
		}
		if err == nil {
			data = raw.Data
		}
		return err
	})
	return data, err
}

// explain returns what to say of an error that trying again does not mend, and nil for others.
func (r *Reader) explain(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("there is no stream %s at %s: a host's \"ringfold record --write nats://.../%[1]s\" makes it", r.stream, r.nc.ConnectedAddr())
	case errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("the server at %s has no JetStream: run nats-server with -js: %w", r.nc.ConnectedAddr(), err)
	case errors.Is(err, jetstream.ErrInvalidStreamName):
		return fmt.Errorf("stream %q: %w", r.stream, err)
	}
	return nil
}

// config says which messages of the stream to read.
func (r *Reader) config(state jetstream.StreamState) (config jetstream.OrderedConsumerConfig) {
	for _, host := range r.o.Only {
		config.FilterSubjects = append(config.FilterSubjects, hostSubject(r.stream, host)+".>")
	}
	slices.Sort(config.FilterSubjects)
	config.FilterSubjects = slices.Compact(config.FilterSubjects)
	switch {
	case r.o.All:
		config.DeliverPolicy = jetstream.DeliverAllPolicy
	case !r.o.Since.IsZero():
		if state.FirstSeq > 1 && state.FirstTime.After(r.o.Since) {
			r.o.Note(fmt.Sprintf("stream %s has dropped what was stored before %s, as its limits say", r.stream, state.FirstTime.Local().Format(time.DateTime)))
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

// message takes a message.
func (r *Reader) message(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("reading stream %s: %w", r.stream, err)
	}
	if !r.begun || meta.Timestamp.Sub(r.merger.now) > r.o.Dead/2 { // it is not one host that was silent, but the server
		r.begun = true
		r.merger.resume(meta.Timestamp)
	}
	r.caught = meta.NumPending == 0
	m, err := parseMessage(r.stream, msg.Subject(), msg.Headers().Get(headerName), msg.Data())
	subject, _, _ := strings.Cut(strings.TrimPrefix(msg.Subject(), r.stream+"."), ".")
	if err != nil {
		host := cmp.Or(r.subjects[subject], subject)
		r.merger.malformed(host, fmt.Sprintf("message %d of the stream: %v", meta.Sequence.Stream, err), meta.Timestamp)
	} else if len(r.o.Only) == 0 || slices.Contains(r.o.Only, m.Host) { // subjects of hosts may be the same
		r.subjects[subject] = m.Host
		r.merger.feed(m, meta.Timestamp)
	}
	r.merger.advance(meta.Timestamp)
	return r.merger.err
}
