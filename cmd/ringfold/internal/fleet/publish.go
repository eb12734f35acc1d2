package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
)

// publisher sends what is in the spool, and deletes what the stream has.
//
// Several messages are under way at a time, in the order of their positions. If something goes
// wrong, all that are not acknowledged are sent again in this order, the same bytes with the same
// ids: of those that had arrived JetStream drops the second. So the stream has a log's messages in
// the order of their sequence numbers, but for those of one window, of which a later one may have
// arrived first.
//
// The futures of nats.go would do, if a broker never took longer to answer than one waits: here, an
// answer to an earlier try counts too.
type publisher struct {
	SinkOptions
	conn    *nats.Conn
	stream  string
	spool   *spool.Spool
	queue   *queue
	inbox   string
	answers chan *nats.Msg
	ending  chan struct{}

	flight  []sent
	attempt uint64    // counts the times that all were sent
	alive   time.Time // when something was acknowledged last, or all were sent
	failure error     // why to send all again
	retry   backoff
	last    uint64 // position of the last that was sent
	done    uint64 // and of the last that was acknowledged, with all before
	deleted uint64
	ended   bool

	published, retried, acknowledged uint64
}

type sent struct {
	spool.Entry
	attempt      uint64 // with which it was sent first; 0: it was not yet
	acknowledged bool
}

// deleteEvery is after how many acknowledgements what is done is deleted: each time takes the disk
// some ms.
const deleteEvery = 16

func newPublisher(conn *nats.Conn, stream string, o SinkOptions, s *spool.Spool, q *queue) *publisher {
	return &publisher{
		SinkOptions: o, conn: conn, stream: stream, spool: s, queue: q,
		inbox: conn.NewInbox(), attempt: 1, answers: make(chan *nats.Msg, 4*window), ending: make(chan struct{}),
	}
}

// finish says that nothing more will come into the spool.
func (p *publisher) finish() { close(p.ending) }

// run publishes until it is finished and all is acknowledged, or until ctx is done. An error is one
// of reading the spool.
func (p *publisher) run(ctx context.Context) error {
	subscription, err := p.conn.ChanSubscribe(p.inbox+".*.*", p.answers)
	if err != nil {
		return err
	}
	defer subscription.Unsubscribe()
	connected := p.conn.StatusChanged(nats.CONNECTED)
	defer p.conn.RemoveStatusListener(connected)
	for {
		if err := p.fill(); err != nil {
			return err
		}
		if len(p.flight) == 0 || p.done-p.deleted >= deleteEvery {
			p.delete(ctx)
		}
		if len(p.flight) == 0 && p.ended {
			return nil
		}
		if p.failure != nil {
			p.again(ctx)
		} else {
			p.wait(ctx, connected)
		}
		if ctx.Err() != nil {
			p.delete(ctx)
			return nil
		}
	}
}

// fill sends as many as may be under way.
func (p *publisher) fill() error {
	for p.failure == nil && len(p.flight) < window {
		e, ok, err := p.spool.Next(p.last)
		if err != nil || !ok {
			return err
		}
		if len(p.flight) == 0 {
			p.alive = time.Now()
		}
		p.last = e.Position
		p.flight = append(p.flight, sent{Entry: e})
		p.published++
		p.send(&p.flight[len(p.flight)-1])
	}
	return nil
}

func (p *publisher) send(s *sent) {
	if !p.conn.IsConnected() { // nats.go would keep in memory what we have on disk
		p.failure = nats.ErrDisconnected
		return
	}
	m, err := decode(s.Data)
	if err == nil {
		m.place = place{Log: s.Log.ID, Sequence: s.Position, First: s.Log.First, Prior: s.Log.Prior}
		err = p.conn.PublishMsg(&nats.Msg{
			Subject: m.subject(p.stream), Data: m.data, Header: nats.Header{jetstream.MsgIDHeader: {m.id()}, headerName: {m.header()}},
			Reply: fmt.Sprintf("%s.%d.%d", p.inbox, p.attempt, s.Position),
		})
	}
	if err != nil {
		p.failure = err
	} else if s.attempt == 0 {
		s.attempt = p.attempt
	}
}

// wait waits until something has happened, and sees to that.
func (p *publisher) wait(ctx context.Context, connected <-chan nats.Status) {
	var late <-chan time.Time
	if len(p.flight) > 0 {
		t := time.NewTimer(time.Until(p.alive.Add(p.AckWait)))
		defer t.Stop()
		late = t.C
	}
	var fresh <-chan struct{}
	if len(p.flight) < window {
		fresh = p.queue.fresh
	}
	ending := p.ending
	if p.ended {
		ending = nil
	}
	select {
	case m := <-p.answers:
		p.answer(m)
	case <-late:
		p.failure = fmt.Errorf("no acknowledgement for %v", p.AckWait)
	case <-connected:
		if len(p.flight) > 0 { // what was under way to the other connection has been lost, or its answer
			p.failure = errors.New("the connection was lost")
		}
	case <-fresh:
	case <-ending:
		p.ended = true
	case <-ctx.Done():
	}
}

// answer takes what the server says to a message.
func (p *publisher) answer(m *nats.Msg) {
	to, position, _ := strings.Cut(strings.TrimPrefix(m.Subject, p.inbox+"."), ".")
	attempt, _ := strconv.ParseUint(to, 10, 64)
	at, _ := strconv.ParseUint(position, 10, 64)
	duplicate, err := answered(m)
	if err != nil {
		if attempt == p.attempt { // to an earlier one it has been reacted to
			p.failure = err
		}
		return
	}
	for i := range p.flight {
		s := &p.flight[i]
		if s.Position != at || s.attempt == 0 || attempt < s.attempt {
			continue
		}
		if duplicate && s.Fresh && s.attempt == p.attempt {
			p.renew(i)
			return
		}
		s.acknowledged = true
	}
	for len(p.flight) > 0 && p.flight[0].acknowledged {
		p.done = p.flight[0].Position
		p.flight = p.flight[1:]
		p.acknowledged++
		p.alive = time.Now()
		if p.retry.reset() {
			p.Note("publishing again")
		}
	}
}

// renew has a message, and those behind it, be of a new log: the stream says that it has it, or has
// had it, and we sent it for the first time. Another one was published in its name, by a copy of
// this agent that goes on elsewhere, as that of a virtual machine.
func (p *publisher) renew(i int) {
	first := p.flight[i]
	p.failure = fmt.Errorf("message %d of log %s was published by another agent: does a copy of this host, or of its spool, run?", first.Position, first.Log.ID)
	p.retry.reset() // it is another failure than those before
	log, err := p.spool.Renew(first.Position)
	if err != nil {
		p.failure, log = errors.Join(p.failure, err), first.Log // the next answer has us try again
	}
	for i := i; i < len(p.flight); i++ {
		p.flight[i].Log, p.flight[i].attempt, p.flight[i].acknowledged = log, 0, false
	}
}

// answered reports whether a stream has had a message already, or what has kept it from storing it.
func answered(m *nats.Msg) (duplicate bool, err error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return false, fmt.Errorf("%w: no stream with this subject, or none that works now", jetstream.ErrNoStreamResponse)
	}
	var a struct {
		Stream    string
		Duplicate bool
		Error     *jetstream.APIError
	}
	if err := json.Unmarshal(m.Data, &a); err != nil || a.Stream == "" && a.Error == nil {
		return false, fmt.Errorf("the answer %q is none of a stream: does something else listen there?", m.Data)
	}
	if a.Error != nil {
		return false, a.Error
	}
	return a.Duplicate, nil
}

// again sends all that is under way once more, after a while, which is longer each time that
// nothing is acknowledged.
func (p *publisher) again(ctx context.Context) {
	if p.retry.first() {
		p.Note(fmt.Sprintf("publishing: %v: trying on; the spool has %d KiB, of %d", p.failure, p.queue.used.Load()>>10, p.SpoolBytes>>10))
	}
	if !p.retry.sleep(ctx) {
		return
	}
	p.failure = nil
	p.attempt++
	p.alive = time.Now()
	for i := range p.flight {
		if p.failure != nil {
			return
		}
		if s := &p.flight[i]; !s.acknowledged {
			p.retried++
			p.send(s)
		}
	}
}

// delete deletes what is acknowledged, to make room. If that fails it tries again, until ctx is
// done: at worst it is published twice.
func (p *publisher) delete(ctx context.Context) {
	if p.done == p.deleted {
		return
	}
	_ = persist(ctx, p.Note, "deleting from the spool again", func() error {
		n, err := p.spool.Delete(p.done)
		if err == nil {
			p.queue.used.Add(-n)
			p.deleted = p.done
		}
		return err
	})
}
