package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
)

// publisher sends what is in the spool, and deletes what the stream has.
//
// A window of messages is under way at a time, in the order of their positions. If something goes
// wrong, all that are not acknowledged are sent again in this order, the same bytes with the same
// ids: of those that had arrived JetStream drops the second, and acknowledges it. So the stream has
// a log's messages in the order of their sequence numbers, but for those of one window, of which a
// later one may have arrived first.
type publisher struct {
	SinkOptions
	js     jetstream.JetStream
	stream string
	spool  *spool.Spool
	fresh  <-chan struct{} // there is something new in the spool; closed: that was all

	flight []sent // what is under way, without those at its beginning that were acknowledged
	last   uint64 // position of the last message of it

	published, retried, acknowledged uint64
}

type sent struct {
	spool.Entry
	tries  int // in its present log
	answer jetstream.PubAckFuture
}

// The first message of a window is sent again after AckWait, then after twice as long each time, up
// to this many times: an answer counts only for the last try, and a slow server's is to come.
const longer = 6

func newJetStream(conn *nats.Conn, o SinkOptions) (jetstream.JetStream, error) {
	return jetstream.New(conn, jetstream.WithPublishAsyncTimeout(o.AckWait<<(longer+1))) // it keeps the messages for so long
}

// run publishes until all is acknowledged and nothing more comes into the spool, or until ctx is
// done. An error is one of reading the spool.
func (p *publisher) run(ctx context.Context) error {
	for ended := false; ; {
		for len(p.flight) < window {
			e, ok, err := p.spool.Next(p.last)
			if err != nil {
				return fmt.Errorf("reading the spool: %w", err)
			}
			if !ok {
				break
			}
			p.last = e.Position
			p.flight = append(p.flight, sent{Entry: e})
			p.published++
		}
		switch {
		case len(p.flight) > 0:
			_ = retry{what: "publishing", note: p.Note}.do(ctx, func() error { return p.try(ctx) })
			p.delete(ctx)
		case ended:
			return nil
		default:
			select {
			case _, more := <-p.fresh:
				ended = !more
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// try sends all that are under way, and waits until they are acknowledged.
func (p *publisher) try(ctx context.Context) error {
	for i := range p.flight {
		if err := p.send(&p.flight[i]); err != nil {
			return err
		}
	}
	for len(p.flight) > 0 {
		s := &p.flight[0]
		wait := p.AckWait << min(s.tries-1, longer)
		select {
		case ack := <-s.answer.Ok():
			if ack.Duplicate && s.Fresh && s.tries == 1 {
				return p.renew()
			}
		case err := <-s.answer.Err():
			return err
		case <-time.After(wait):
			return fmt.Errorf("no acknowledgement for %v", wait)
		case <-ctx.Done():
			return ctx.Err()
		}
		p.acknowledged++
		p.flight = p.flight[1:]
	}
	return nil
}

func (p *publisher) send(s *sent) error {
	if !p.js.Conn().IsConnected() { // nats.go would keep in memory what we have on disk
		return nats.ErrDisconnected
	}
	m, err := decode(s.Data)
	if err != nil {
		return err
	}
	m.place = place{Log: s.Log.ID, Sequence: s.Position, First: s.Log.First, Prior: s.Log.Prior}
	if s.tries++; s.answer != nil {
		p.retried++
	}
	s.answer, err = p.js.PublishMsgAsync(&nats.Msg{
		Subject: m.subject(p.stream), Data: m.data, Header: nats.Header{jetstream.MsgIDHeader: {m.id()}, headerName: {m.header()}},
	})
	return err
}

// renew has all that are under way be of a new log: the stream says that it has the first of them,
// and we sent that for the first time. Another one was published in its name, by a copy of this
// agent that goes on elsewhere, as that of a virtual machine.
func (p *publisher) renew() error {
	first := p.flight[0].Entry
	log, err := p.spool.Renew(first.Position)
	if err != nil {
		log = first.Log // the next answer has us try again
	}
	for i := range p.flight {
		p.flight[i].Log, p.flight[i].tries = log, 0
	}
	return errors.Join(fmt.Errorf("message %d of log %s was published by another agent: does a copy of this host, or of its spool, run?", first.Position, first.Log.ID), err)
}

// delete deletes what is acknowledged, to make room. If that fails it tries again, until ctx is
// done: at worst it is published twice.
func (p *publisher) delete(ctx context.Context) {
	done := p.last - uint64(len(p.flight)) // positions have no holes
	_ = retry{what: "deleting from the spool", note: p.Note}.do(ctx, func() error { return p.spool.Delete(done) })
}
