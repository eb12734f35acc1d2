package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// SinkOptions are how a host publishes. All but those in the second part are parameters of an
// Address.
type SinkOptions struct {
	Host       string
	Spool      string   // path
	SpoolBytes cli.Size // of messages that the stream does not have yet, at most
	// The stream's limits, if it is made.
	MaxAge   time.Duration
	MaxBytes cli.Size
	Replicas int

	Boot    string               // default: the kernel's
	Clock   func() clock.Reading // default: clock.Measure
	EndWait time.Duration        // how long the server has in the end to take what is left (default 5 s)
	AckWait time.Duration        // then a message is sent again (default 2 s, less than readers wait for a missing one)
	Wait    bool                 // wait for the disk instead of losing events: of snapshots
	// Note gets failures and recoveries, from any goroutine. It must not be nil.
	Note func(text string)
}

const (
	// BufferBytes is how much a Sink's Recorder may write at a time.
	BufferBytes = 64 << 10
	mostBatch   = 2 * BufferBytes        // bytes of records in a message
	mostCarry   = 32 << 10               // bytes of losses for which there was no room
	batchDelay  = 100 * time.Millisecond // a record waits in a message for no longer
	// Heartbeat is at least how often a message is sent, even if nothing happens: the FlushEvery of
	// the stream that is recorded.
	Heartbeat = time.Second
	headEvery = time.Minute // at most half of the least max-age
	window    = 16          // messages that are sent before the first of them is acknowledged
)

// SinkStats are what a Sink has done.
type SinkStats struct {
	Messages     uint64 `json:"messages"`  // written to the spool, heartbeats and heads included
	Published    uint64 `json:"published"` // sent, those of earlier runs included
	Retried      uint64 `json:"retried"`   // sent once more
	Acknowledged uint64 `json:"acknowledged"`
	SpoolBytes   int64  `json:"spool_bytes"` // that are left, for the next run
	SpoolFull    uint64 `json:"spool_full"`  // events that are lost for want of room in the spool
}

// Sink publishes a recording: a perfdata.RoundWriter. It never waits for the disk or the server:
// what the spool has no room for is lost, and the next message says so.
type Sink struct {
	o    SinkOptions
	conn *nats.Conn

	spool     *spool.Spool
	queue     *queue
	publisher *publisher
	kill      context.CancelFunc // ends these, and the making of the stream
	queued    chan error
	published chan error
	making    sync.WaitGroup // of the stream

	mu       sync.Mutex
	head     []byte
	headAt   time.Time
	since    uint64 // the Through of the last message that was taken
	through  uint64
	records  []byte // of the open message
	carry    []byte // losses of messages that were not
	timer    *time.Timer
	sentAt   time.Time
	clock    clock.Reading
	measured time.Time
	lost     uint64 // events, for want of room; and those of which no message says so yet
	untold   uint64
	lostAt   uint64 // the latest time of records that were given up
	corrupt  uint64 // the id of samples that are none, but say that memory could not be read: the head's last
	failure  error
}

// OpenSink opens the spool, connects, and makes the stream if there is none. It does not wait for
// the server. An error is one that trying again does not mend.
func (a Address) OpenSink() (*Sink, error) {
	if err := os.MkdirAll(filepath.Dir(a.Write.Spool), 0o700); err != nil {
		return nil, fmt.Errorf("%w: spool=FILE says where else the spool may be", err)
	}
	conn, err := a.Connect("ringfold record "+a.Write.Host, a.Write.Note)
	if err != nil {
		return nil, err
	}
	s, err := newSink(conn, a.Stream, a.Write)
	if err != nil {
		conn.Close()
	}
	return s, err
}

// newSink makes a Sink, which closes the connection in the end.
func newSink(conn *nats.Conn, stream string, o SinkOptions) (*Sink, error) {
	if o.Boot == "" {
		b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return nil, fmt.Errorf("which boot this is: %w", err)
		}
		o.Boot = strings.TrimSpace(string(b))
	}
	if o.Clock == nil {
		o.Clock = clock.Measure
	}
	o.EndWait, o.AckWait = cmp.Or(o.EndWait, 5*time.Second), cmp.Or(o.AckWait, 2*time.Second)
	js, err := newJetStream(conn, o)
	if err != nil {
		return nil, err
	}
	sp, err := spool.Open(o.Spool)
	if err != nil {
		return nil, err
	}
	s := &Sink{o: o, conn: conn, spool: sp, queue: newQueue(sp, o), queued: make(chan error, 1), published: make(chan error, 1)}
	s.publisher = &publisher{SinkOptions: o, js: js, stream: stream, spool: sp, fresh: s.queue.fresh}
	s.Begin(perfbuf.Now())
	s.timer = time.AfterFunc(time.Hour, s.expired)
	s.timer.Stop()
	lifetime, kill := context.WithCancel(context.Background())
	s.kill = kill
	// The host records and spools, whatever becomes of the stream.
	s.making.Go(func() {
		if err := ensure(lifetime, js, stream, o); err != nil && lifetime.Err() == nil {
			s.fail(err)
		}
	})
	go func() { s.queued <- s.queue.run(lifetime) }()
	go func() {
		err := s.publisher.run(lifetime)
		s.fail(err) // what cannot be published need not be read
		s.published <- err
	}()
	return s, nil
}

func (s *Sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = errors.Join(s.failure, err)
}

// Begin sets since when all events are in the recording, in ns of CLOCK_MONOTONIC: by default since
// the sink was opened. Call it before the first Round.
func (s *Sink) Begin(since uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.through = since, since
}

// Write takes whole records, of BufferBytes at most. The first are the recording's head.
func (s *Sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head == nil {
		s.head = bytes.Clone(b)
		s.corrupt = corruptID(b)
		return len(b), s.failure
	}
	if len(s.records)+len(b) > mostBatch {
		s.close(false)
	}
	if len(s.records) == 0 {
		s.timer.Reset(batchDelay)
	}
	s.records = append(s.records, b...)
	return len(b), s.failure
}

// Round says up to when the recording is complete.
func (s *Sink) Round(through uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.through = max(s.through, through)
	if len(s.records) == 0 && time.Since(s.sentAt) >= Heartbeat*9/10 {
		s.close(false)
	}
	return s.failure
}

// expired closes a message that waits for more.
func (s *Sink) expired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.records) > 0 {
		s.close(false)
	}
}

// close makes a message of what there is. Without room for it in the spool its events are lost, and
// the next one says so; its losses are not.
func (s *Sink) close(end bool) {
	s.timer.Stop()
	now := time.Now()
	if now.Sub(s.measured) >= 10*time.Second {
		s.clock, s.measured = s.o.Clock(), now
	}
	m := message{Host: s.o.Host, Boot: s.o.Boot}
	if now.Sub(s.headAt) >= headEvery && s.head != nil {
		head := m
		head.Head, head.data = true, s.head
		// What the last message says can be read only with a head.
		if s.queue.push(head.encode(), end && s.headAt.IsZero()) {
			if s.headAt.IsZero() {
				s.head = s.head[pipeHeader:] // only a log's first message begins a file
			}
			s.headAt = now
		}
	}
	m.Since, m.Through, m.Offset, m.Error, m.End = s.since, s.through, s.clock.Offset, s.clock.Error, end
	m.data = s.carry[:len(s.carry):len(s.carry)]
	if s.untold > 0 {
		m.data = perfdata.Gap{Reason: SpoolFull, Count: s.untold, After: s.since, Time: s.lostAt}.Append(m.data)
	}
	m.data = append(m.data, s.records...)
	if s.headAt.IsZero() && !end || !s.queue.push(m.encode(), end && len(s.records) == 0) {
		s.lose()
		if end {
			s.close(end)
		}
		return
	}
	s.since, s.sentAt = s.through, now
	s.records, s.carry, s.untold = s.records[:0], nil, 0
}

// Close publishes what is left, and waits for the disk and the server for EndWait. What was not acknowledged
// stays in the spool. complete says that nothing that was before through is missing in what was
// written. An error is one of the spool's file, or that the stream cannot be.
func (s *Sink) Close(complete bool) (SinkStats, error) {
	end := time.AfterFunc(s.o.EndWait, s.kill) // a Write that waits for the disk ends with it
	defer end.Stop()
	s.mu.Lock()
	s.close(complete)
	s.mu.Unlock()
	s.queue.finish()
	err := errors.Join(<-s.queued, <-s.published)
	s.kill()
	s.making.Wait()
	stats := SinkStats{
		Messages: s.queue.appended.Load(), SpoolBytes: s.spool.Bytes(), SpoolFull: s.lost,
		Published: s.publisher.published, Retried: s.publisher.retried, Acknowledged: s.publisher.acknowledged,
	}
	s.conn.Close()
	return stats, errors.Join(err, s.spool.Close())
}
