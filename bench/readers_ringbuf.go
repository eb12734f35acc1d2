package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// ringfoldOrdered is a stream of what there is: Slack(0).
const ringfoldOrdered = "ringfold-ordered"

// openRingBufReader opens a reader of a BPF ring buffer.
func openRingBufReader(reader string, c *collection, o options) (peer, error) {
	switch reader {
	case ringfold, ringfoldForEach, ringfoldOrdered, ringfoldTwoSources:
		return openRingfoldRingBuf(reader, c, o)
	case libbpfC:
		return openLibbpfC(c, o, false)
	case cLoop:
		return openLibbpfC(c, o, true)
	case ayaReader:
		return openAya(c, o)
	case ciliumRingbuf:
		return openRingbuf(c, o)
	case ciliumRingbufRead:
		p, err := openRingbuf(c, o)
		if err == nil {
			p.(*ringbufPeer).read = true
		}
		return p, err
	}
	return nil, fmt.Errorf("there is no such reader of ring buffers")
}

// openRingfoldRingBuf is openRingfold. The time is in the payload, for the stream only.
func openRingfoldRingBuf(reader string, c *collection, o options) (peer, error) {
	stream := reader == ringfoldOrdered || reader == ringfoldTwoSources
	var opts perfbuf.Options
	if stream {
		opts.Time = perfbuf.PayloadTime(workload.TimeOffset)
	}
	r, err := perfbuf.OpenRingBuf(c.FD(workload.Shared), opts)
	if err != nil {
		return nil, err
	}
	p, err := newRingfoldPeer(r, o)
	if err != nil {
		return nil, err
	}
	p.foreach = reader == ringfoldForEach
	if stream {
		return openStream(p, reader == ringfoldTwoSources)
	}
	return p, nil
}

// ringbufPeer is cilium/ebpf's ringbuf.Reader, by ReadInto: another kind of map, whose programs call
// bpf_ringbuf_output with no flags: they wake a reader that has caught up.
type ringbufPeer struct {
	sink
	r    *ringbuf.Reader
	rec  ringbuf.Record
	read bool // in drains, by Read
	done chan error
}

func openRingbuf(c *collection, o options) (peer, error) {
	m, err := ciliumMap(c.FD(workload.Shared))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, err
	}
	p := &ringbufPeer{r: r}
	p.init(o)
	return p, nil
}

func (p *ringbufPeer) prepare() error {
	p.r.SetDeadline(time.Unix(1, 0))
	return emptied(p.r.ReadInto(&p.rec))
}

func (p *ringbufPeer) drain(want int) error {
	var n int
	for n < want {
		var err error
		if p.read {
			p.rec, err = p.r.Read()
		} else {
			err = p.r.ReadInto(&p.rec)
		}
		if err != nil {
			return err
		}
		p.sum += binary.NativeEndian.Uint64(p.rec.RawSample)
		n++
	}
	return expect(n, want)
}

func (p *ringbufPeer) start() error {
	p.done = make(chan error, 1)
	go func() {
		for {
			err := p.r.ReadInto(&p.rec)
			if errors.Is(err, os.ErrClosed) {
				err = nil
			} else if err == nil {
				p.event(p.rec.RawSample)
				continue
			}
			p.done <- err
			return
		}
	}()
	return nil
}

func (p *ringbufPeer) close() error {
	err := p.r.Close()
	if p.done != nil {
		err = errors.Join(err, <-p.done)
	}
	return err
}
