// Package agent ships a host's events to JetStream: ring, exact stream, batch, spool on disk,
// broker. Whatever fails behind the rings, reading goes on, and whatever is missing in the end is
// in the log as a gap.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/perfbuf"
)

// Options say what to ship, and where to. Host, Source, Conn and SpoolPath are needed.
type Options struct {
	Host   string
	BootID string // default: the kernel's
	Source Source
	Conn   *nats.Conn // must reconnect by itself for ever: nats.MaxReconnects(-1)
	Prefix string     // of the subject (default EVENTS)

	SpoolPath  string
	SpoolBytes int64 // of batches that the broker does not have yet, at most (default 256 MiB)
	Window     int   // batches that are sent before the first of them is acknowledged (default 16)

	BatchDelay time.Duration // an event waits in a batch for no longer (default 100 ms)
	Heartbeat  time.Duration // at least so often a batch is sent, even if nothing happens (default 1 s)
	AckWait    time.Duration // then a batch is sent again (default 2 s, less than readers wait for a missing one)
	EndWait    time.Duration // how long the broker has in the end to take what is left (default 5 s)

	Clock func() clock.Reading // default: clock.Measure
	Note  func(text string)    // gets errors, as often as they happen, and recoveries, from any goroutine (default: dropped)
}

// Source is where events come from: a lifecycle.Probe or a lifecycle.Simulation. Their clock is
// perfbuf.Now.
type Source interface {
	// Open sets up rings for the events. None comes before Attach.
	Open(perfbuf.Options) (*perfbuf.Reader, error)
	// Attach starts the flow of events.
	Attach() error
	// Since returns when Attach was done. Events of before do not count: others may be missing.
	Since() uint64
	// Detach ends the flow. A program may still be running on another CPU then.
	Detach() error
	// Close gives everything back, whatever was called before. The reader is closed first.
	Close()
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

func (o Options) withDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, "EVENTS")
	o.SpoolBytes = cmp.Or(o.SpoolBytes, 256<<20)
	o.Window = cmp.Or(o.Window, 16)
	o.BatchDelay = cmp.Or(o.BatchDelay, 100*time.Millisecond)
	o.Heartbeat = cmp.Or(o.Heartbeat, time.Second)
	o.AckWait = cmp.Or(o.AckWait, 2*time.Second)
	o.EndWait = cmp.Or(o.EndWait, 5*time.Second)
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
	// A host's name that no batch can have must not be found out by the first of them.
	_, err := wire.Marshal(&wire.Batch{Host: o.Host, BootId: o.BootID})
	return o, err
}

// Run publishes the source's events, and what the spool has of earlier runs, until ctx is done. It
// then detaches the source, ships what is left, waits for the broker for EndWait, and returns nil:
// what was not acknowledged stays in the spool. An error is one of the source or of the spool's
// file. After errors of the broker it tries again for ever. It closes the source.
func Run(ctx context.Context, o Options) (Stats, error) {
	defer o.Source.Close()
	o, err := o.withDefaults()
	if err != nil {
		return Stats{}, err
	}
	sp, err := spool.Open(o.SpoolPath)
	if err != nil {
		return Stats{}, err
	}
	defer sp.Close()
	reader, err := o.Source.Open(perfbuf.Options{})
	if err != nil {
		return Stats{}, err
	}
	defer func() { reader.Close(); <-reader.Done() }()
	stream, err := reader.Stream(perfbuf.StreamOptions{FlushEvery: o.Heartbeat})
	if err != nil {
		return Stats{}, err
	}
	defer stream.Close()

	q := newQueue(sp, o.SpoolBytes, o.Note)
	f := newFolder(o, q)
	p := newPublisher(o, sp, q)
	// Queue and publisher outlive ctx: they have work until the end.
	lifetime, kill := context.WithCancel(context.Background())
	defer kill()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	queued, published := make(chan error, 1), make(chan error, 1)
	go func() { queued <- q.run(lifetime) }()
	go func() {
		err := p.run(lifetime)
		stop() // if it is an error: what cannot be published need not be read
		published <- err
	}()

	err = f.read(reading, stream)

	end := time.AfterFunc(o.EndWait, kill)
	defer end.Stop()
	q.finish()
	err = errors.Join(err, <-queued)
	p.finish()
	err = errors.Join(err, <-published)
	return Stats{
		Events: f.decoded, Batches: q.appended.Load(), Lost: f.lost, SpoolBytes: sp.Bytes(),
		Published: p.published, Retried: p.retried, Acknowledged: p.acknowledged,
	}, err
}
