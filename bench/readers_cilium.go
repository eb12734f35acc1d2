package main

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"
	dropin "github.com/ringfold/ringfold/dropin/perf"
	"github.com/ringfold/ringfold/internal/workload"
	"golang.org/x/sys/unix"
)

// ciliumPeer is cilium/ebpf's perf.Reader, by ReadInto with one Record, which allocates nothing.
// ReadInto calls epoll_wait before it looks at the rings, once for each drain. In drains its deadline has
// passed: then it does not wait, neither for more events nor for a watermark, and reads what is there.
type ciliumPeer struct {
	sink
	r interface {
		ReadInto(*perf.Record) error
		SetDeadline(time.Time)
		Flush() error
		Close() error
	}
	rec  perf.Record
	done chan error
}

// dropInReader is ringfold's drop-in for perf.Reader. Its records are of another type.
type dropInReader struct {
	*dropin.Reader
	rec dropin.Record
}

func (r *dropInReader) ReadInto(rec *perf.Record) error {
	err := r.Reader.ReadInto(&r.rec)
	if errors.Is(err, dropin.ErrFlushed) {
		err = perf.ErrFlushed
	}
	*rec = perf.Record(r.rec)
	return err
}

func openPerf(c *collection, o options) (peer, error) {
	m, err := ciliumMap(c.FD(workload.Events))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := dropin.NewReader(m, o.ringBytes)
	if err != nil {
		return nil, err
	}
	p := &ciliumPeer{r: &dropInReader{Reader: r}}
	p.init(o)
	return p, nil
}

func openCilium(c *collection, o options, watermark int) (peer, error) {
	m, err := ciliumMap(c.FD(workload.Events))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := perf.NewReaderWithOptions(m, o.ringBytes, perf.ReaderOptions{Watermark: watermark})
	if err != nil {
		return nil, err
	}
	p := &ciliumPeer{r: r}
	p.init(o)
	return p, nil
}

// ciliumMap is another descriptor of a map, in cilium/ebpf's type, which closes it.
func ciliumMap(fd int) (*ebpf.Map, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return ebpf.NewMapFromFD(own)
}

func (p *ciliumPeer) prepare() error {
	p.r.SetDeadline(time.Unix(1, 0))
	return emptied(p.r.ReadInto(&p.rec))
}

// emptied is for the read after a drain, which tells that there is no more.
func emptied(err error) error {
	switch {
	case err == nil:
		return errors.New("there was more in the rings than was output")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	}
	return err
}

func (p *ciliumPeer) drain(want int) error {
	var n int
	for n < want {
		if err := p.r.ReadInto(&p.rec); err != nil {
			return err
		}
		if p.rec.LostSamples > 0 {
			return errors.New("a ring has lost samples")
		}
		p.sum += binary.NativeEndian.Uint64(p.rec.RawSample)
		n++
	}
	return expect(n, want)
}

func (p *ciliumPeer) start() error {
	p.done = make(chan error, 1)
	go func() {
		for {
			switch err := p.r.ReadInto(&p.rec); {
			case errors.Is(err, perf.ErrFlushed):
			case errors.Is(err, os.ErrClosed):
				p.done <- nil
				return
			case err != nil:
				p.done <- err
				return
			case p.rec.LostSamples > 0:
				p.lost.Add(p.rec.LostSamples)
			default:
				p.event(p.rec.RawSample)
			}
		}
	}()
	return nil
}

// flush makes the loop read what lies below the watermark.
func (p *ciliumPeer) flush() error { return p.r.Flush() }

func (p *ciliumPeer) close() error {
	err := p.r.Close()
	if p.done != nil {
		err = errors.Join(err, <-p.done)
	}
	return err
}
