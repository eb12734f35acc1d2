// Package agent ships a host's events to JetStream: ring, exact stream, batch, spool on disk, broker. Whatever fails behind the rings,
// reading goes on, and whatever is missing in the end is in the log as a gap.
package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/perfbuf"
)

// Options say what to ship, and where to. Host, Source, Conn and SpoolPath are needed.
type Options struct {
	Host   string
	BootID string // empty: the kernel's
	Source source.Source
	Conn   *nats.Conn // which goes on trying by itself when it breaks: nats.MaxReconnects(-1)
	Prefix string     // of the subject; empty: EVENTS

	SpoolPath  string
	SpoolBytes int64 // of batches that the broker does not have yet, at most; 0: 256 MiB
	Window     int   // batches that are sent before the first of them is acknowledged; 0: 16

	BatchDelay time.Duration // an event waits in a batch for no longer; 0: 100 ms
	Heartbeat  time.Duration // how often a batch is sent at least, though nothing happens; 0: 1 s
	AckWait    time.Duration // then a batch is sent again; 0: 2 s, less than readers wait for one that is missing
	EndWait    time.Duration // how long to wait in the end for the broker to take what there is; 0: 5 s

	Clock func() clock.Reading // nil: clock.Measure
	Note  func(text string)    // is told what goes wrong, as often as it does, and when it is right again, from any goroutine. nil: nobody is
}

// Stats is what an agent has done.
type Stats struct {
	Events       uint64 // read
	Batches      uint64 // written to the spool, heartbeats included
	Published    uint64 // batches sent, those of earlier runs included
	Retried      uint64 // sent once more
	Acknowledged uint64
	SpoolBytes   int64                      // that are left, for the next run
	Lost         map[wire.Gap_Reason]uint64 // events that are not in the log: RING_FULL and SPOOL_FULL. Of CORRUPT: stretches of memory
}

func (o Options) effective() (Options, error) {
	switch {
	case o.Host == "":
		return o, errors.New("no host name")
	case o.Source == nil || o.Conn == nil:
		return o, errors.New("no source, or no connection")
	case o.SpoolPath == "":
		return o, errors.New("no file for the spool")
	case o.SpoolBytes < 0 || o.Window < 0 || o.BatchDelay < 0 || o.Heartbeat < 0 || o.AckWait < 0 || o.EndWait < 0:
		return o, errors.New("sizes and times cannot be negative")
	}
	set(&o.Prefix, "EVENTS")
	set(&o.SpoolBytes, 256<<20)
	set(&o.Window, 16)
	set(&o.BatchDelay, 100*time.Millisecond)
	set(&o.Heartbeat, time.Second)
	set(&o.AckWait, 2*time.Second)
	set(&o.EndWait, 5*time.Second)
	if o.Clock == nil {
		o.Clock = clock.Measure
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.BootID == "" {
		b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return o, fmt.Errorf("which boot this is: %w", err)
		}
		o.BootID = strings.TrimSpace(string(b))
	}
	return o, nil
}

func set[T comparable](option *T, byDefault T) {
	var zero T
	if *option == zero {
		*option = byDefault
	}
}

// patience is far more than programs that were running when they were detached take to end.
const patience = 30 * time.Second

// Run reads the source and publishes what it has, and what the spool has of earlier runs, until ctx is done. It then detaches the
// source, ships what is left, waits for the broker for as long as Options say, and returns nil: what has not been acknowledged stays in the spool. An error
// is one of the source or of the spool's file; the broker's are tried against for ever.
func Run(ctx context.Context, o Options) (Stats, error) {
	o, err := o.effective()
	if err != nil {
		return Stats{}, err
	}
	sp, err := spool.Open(o.SpoolPath)
	if err != nil {
		return Stats{}, err
	}
	defer sp.Close()
	a := &agent{Options: o, spool: sp}
	a.queue = newQueue(sp, o.SpoolBytes, o.Note)
	f := newFolder(o, a.queue)
	// A batch that can never be published would be found out only when it is too late.
	if _, err := wire.Marshal(&wire.Batch{Host: o.Host, BootId: o.BootID}); err != nil {
		return Stats{}, err
	}

	defer o.Source.Close()
	reader, err := o.Source.Open()
	if err != nil {
		return Stats{}, err
	}
	defer func() { reader.Close(); <-reader.Done() }()
	stream, err := reader.Stream(perfbuf.StreamOptions{FlushEvery: o.Heartbeat})
	if err != nil {
		return Stats{}, err
	}
	defer stream.Close()

	return a.run(ctx, f, stream)
}

type agent struct {
	Options
	spool *spool.Spool
	queue *queue
}

func (a *agent) run(ctx context.Context, f *folder, stream *perfbuf.Stream) (Stats, error) {
	p := newPublisher(a.Options, a.spool, a.queue)
	// Both outlive ctx: they have work until the end.
	lifetime, kill := context.WithCancel(context.Background())
	defer kill()
	queued, published := make(chan error, 1), make(chan error, 1)
	go func() { queued <- a.queue.run(lifetime) }()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		err := p.run(lifetime)
		stop() // if it is an error: what cannot be published need not be read
		published <- err
	}()

	err := a.read(reading, f, stream)

	end := time.AfterFunc(a.EndWait, kill)
	defer end.Stop()
	a.queue.finish()
	err = errors.Join(err, <-queued)
	p.finish()
	err = errors.Join(err, <-published)
	s := Stats{
		Events: f.read, Batches: a.queue.appended.Load(), Lost: f.lost, SpoolBytes: a.spool.Bytes(),
		Published: p.published, Retried: p.retried, Acknowledged: p.acknowledged,
	}
	return s, err
}

// read reads the stream from its beginning to its end, into batches.
func (a *agent) read(ctx context.Context, f *folder, stream *perfbuf.Stream) error {
	if err := a.Source.Attach(); err != nil {
		return err
	}
	f.begin(a.Source.Now())
	err := f.follow(ctx, stream)
	watermark := a.Source.Now() // what happens from now on may be missed
	if err != nil {
		f.close(0, false)
		return err
	}
	if err := a.Source.Detach(); err != nil {
		f.close(0, false)
		return err
	}
	// Not the context of before, which is done.
	drain, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("programs still run %v after they were detached", patience))
	defer cancel()
	if err := stream.Drain(drain, f.event); err != nil {
		f.close(0, false)
		return err
	}
	f.close(watermark, true)
	return nil
}
