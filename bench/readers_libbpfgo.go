package main

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/aquasecurity/libbpfgo"
)

// drainDeadline ends a drain that waits for events which are not there.
const drainDeadline = 10 * time.Second

// libbpfgoPeer is libbpfgo's PerfBuffer: a goroutine of its own polls, and each event is copied by a
// callback from C into a new slice, which goes through a channel. The channel is buffered, which is
// much faster than one that is not, and is read by a loop over it alone, as a select over it and the
// channel of losses costs more.
type libbpfgoPeer struct {
	sink
	c        *collection
	o        options
	pb       *libbpfgo.PerfBuffer
	samples  chan []byte
	losses   chan uint64
	polling  bool
	consumer sync.WaitGroup
}

const (
	libbpfgoChannel = 1024 // events
	// How long a poll waits for events. Stopping takes as long.
	libbpfgoPoll      = 100 // ms, what libbpf-c's loop waits too
	libbpfgoPollDrain = 1
)

func openLibbpfgo(c *collection, o options) (peer, error) {
	p := &libbpfgoPeer{sink: sink{timed: o.timed}, c: c, o: o}
	return p, p.open()
}

func (p *libbpfgoPeer) open() (err error) {
	p.samples, p.losses = make(chan []byte, libbpfgoChannel), make(chan uint64, libbpfgoChannel)
	p.pb, err = p.c.module.InitPerfBuf("events", p.samples, p.losses, p.o.pages())
	return err
}

// prepare opens the buffer anew after a drain: polling cannot be stopped and started again, and it
// would read while the rings are being filled.
func (p *libbpfgoPeer) prepare() error {
	if !p.polling {
		return nil
	}
	p.pb.Close()
	p.polling = false
	return p.open()
}

// drain takes the time from the start of polling to the last event out of the channel: the way from
// the ring to the user leads through that goroutine. It is started here, once for each drain.
func (p *libbpfgoPeer) drain(want int) error {
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

func (p *libbpfgoPeer) start() error {
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

func (p *libbpfgoPeer) close() error {
	p.pb.Close() // closes the channels, if it has polled
	p.consumer.Wait()
	return nil
}
