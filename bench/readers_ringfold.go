package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// ringfoldPeer is this library: default options but for the ring size, and the wakeup policy where
// its name says so. It loops over batches, as a program does that wants the most of it; ringfold-foreach
// has its function called for each event. Records have the kernel's time, 8 bytes that no other peer has.
type ringfoldPeer struct {
	sink
	r       *perfbuf.Reader
	stream  *perfbuf.Stream
	foreach bool // with a call for each event
	sample  func(perfbuf.Event) error
	batch   func(*perfbuf.Batch) error
	drained int
	stop    context.CancelFunc
	done    chan error
}

func openRingfold(c *collection, o options, w perfbuf.Wakeup) (peer, error) {
	r, err := perfbuf.Open(c.FD(workload.Events), perfbuf.Options{RingBytes: o.ringBytes, Wakeup: w})
	if err != nil {
		return nil, err
	}
	return newRingfoldPeer(r, o)
}

// newRingfoldPeer makes a peer that reads without order. It owns r.
func newRingfoldPeer(r *perfbuf.Reader, o options) (*ringfoldPeer, error) {
	p := &ringfoldPeer{r: r}
	p.init(o)
	p.sample, p.batch = p.takeSample, p.takeBatch
	return p, p.open(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
}

// open has it read these readers, its own by default, by another stream.
func (p *ringfoldPeer) open(o perfbuf.StreamOptions, more ...*perfbuf.Reader) (err error) {
	if p.stream != nil {
		p.stream.Close()
	}
	if p.stream, err = perfbuf.Merge(o, append(more, p.r)...); err != nil {
		return errors.Join(err, p.close())
	}
	return nil
}

func (p *ringfoldPeer) takeSample(ev perfbuf.Event) error {
	if ev.Kind() != perfbuf.KindSample {
		return notSample(ev)
	}
	p.sum += binary.NativeEndian.Uint64(ev.Bytes())
	p.drained++
	return nil
}

// takeBatch is no function literal: where the compiler inlines the function around one, as with Go 1.26, it does not inline the
// literal's loop over events.
func (p *ringfoldPeer) takeBatch(b *perfbuf.Batch) error {
	n, sum := 0, uint64(0)
	for ev := range b.Events() {
		if ev.Kind() != perfbuf.KindSample {
			return notSample(ev)
		}
		sum += binary.NativeEndian.Uint64(ev.Bytes())
		n++
	}
	p.sum += sum
	p.drained += n
	return nil
}

func notSample(ev perfbuf.Event) error {
	return fmt.Errorf("an event that is no sample: %v", ev.Kind())
}

func (p *ringfoldPeer) prepare() error { return nil }

func (p *ringfoldPeer) drain(want int) error {
	p.drained = 0
	var err error
	if p.foreach {
		err = p.stream.ForEach(p.sample)
	} else {
		err = p.stream.ForEachBatch(p.batch)
	}
	if err != nil {
		return err
	}
	return expect(p.drained, want)
}

func (p *ringfoldPeer) start() error {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop, p.done = cancel, make(chan error, 1)
	go func() {
		p.done <- p.stream.RunBatches(ctx, func(b *perfbuf.Batch) error {
			for ev := range b.Events() {
				switch ev.Kind() {
				case perfbuf.KindSample:
					p.event(ev.Bytes())
				case perfbuf.KindLost:
					p.lost.Add(ev.Lost())
				case perfbuf.KindShed:
				default:
					return ev.Err()
				}
			}
			return nil
		})
	}()
	return nil
}

func (p *ringfoldPeer) close() error {
	var err error
	if p.stop != nil {
		p.stop()
		if err = <-p.done; errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	return errors.Join(err, p.r.Close())
}
