package main

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
)

// drainDeadline ends a drain that waits for events which are not there.
const drainDeadline = 10 * time.Second

// channelBuffer is what sends events through a channel: libbpfgo's PerfBuffer, or what perfchan.InitPerfBuf returns.
type channelBuffer interface {
	Poll(timeout int)
	Stop()
	Close()
}

// channelPeer is a channelBuffer: goroutines of its own read, and each event is copied into a new slice, which goes
// through a channel; in libbpfgo's case by a callback from C. The channel is buffered, which is
// much faster than one that is not, and is read by a loop over it alone, as a select over it and the
// channel of losses costs more.
type channelPeer struct {
	sink
	initBuf  func(samples chan []byte, losses chan uint64) (channelBuffer, error)
	pb       channelBuffer
	samples  chan []byte
	losses   chan uint64
	polling  bool
	consumer sync.WaitGroup
}

const (
	channelEvents = 1024
	// How long libbpfgo's poll waits for events. Stopping takes as long.
	libbpfgoPoll      = 100 // ms, what libbpf-c's loop waits too
	libbpfgoPollDrain = 1
)

func openLibbpfgo(c *collection, o options) (peer, error) {
	return openChannels(o, func(samples chan []byte, losses chan uint64) (channelBuffer, error) {
		return c.Module().InitPerfBuf("events", samples, losses, o.pages())
	})
}

func openDropIn(c *collection, o options) (peer, error) {
	return openChannels(o, func(samples chan []byte, losses chan uint64) (channelBuffer, error) {
		order := perfbuf.Unordered() // as all that are not timed, to compare the price of channels
		if o.timed {
			order = perfbuf.Order{}
		}
		return perfchan.InitPerfBuf(c.Module(), "events", samples, losses, o.pages(), order)
	})
}

func openChannels(o options, initBuf func(samples chan []byte, losses chan uint64) (channelBuffer, error)) (peer, error) {
	p := &channelPeer{initBuf: initBuf}
	p.init(o)
	return p, p.open()
}

func (p *channelPeer) open() (err error) {
	p.samples, p.losses = make(chan []byte, channelEvents), make(chan uint64, channelEvents)
	p.pb, err = p.initBuf(p.samples, p.losses)
	return err
}

// prepare opens the buffer anew after a drain: polling cannot be stopped and started again, and it
// would read while the rings are being filled.
func (p *channelPeer) prepare() error {
	if !p.polling {
		return nil
	}
	p.pb.Close()
	p.polling = false
	return p.open()
}

// drain takes the time from the start of polling to the last event out of the channel: the way from
// the ring to the user leads through that goroutine. It is started here, once for each drain.
func (p *channelPeer) drain(want int) error {
	p.pb.Poll(libbpfgoPollDrain)
	p.polling = true
	var n int
	// If events are missing, closing the channel ends the loop.
	timeout := time.AfterFunc(drainDeadline, p.pb.Stop)
	defer timeout.Stop()
	for b := range p.samples {
		p.sum += binary.NativeEndian.Uint64(b)
		if n++; n == want {
			break
		}
	}
	return expect(n, want)
}

func (p *channelPeer) start() error {
	samples, losses := p.samples, p.losses
	p.consumer.Go(func() {
		for b := range samples {
			p.event(b)
		}
	})
	p.consumer.Go(func() {
		for n := range losses {
			p.lost.Add(n)
		}
	})
	p.pb.Poll(libbpfgoPoll)
	p.polling = true
	return nil
}

func (p *channelPeer) close() error {
	p.pb.Close() // closes the channels, if it has polled
	p.consumer.Wait()
	return nil
}
