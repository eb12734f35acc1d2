//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/perfbuf"
)

// readers reads maps by package perfbuf.
type readers struct {
	settings settings
	out      *wire.Writer

	all    []*perfbuf.Reader
	stream *perfbuf.Stream // nil: each ring by itself
	rings  map[*perfbuf.Ring]*perfbuf.Stream

	lossesMu sync.Mutex
	losses   map[[2]int]uint64 // that were sent, by source and CPU

	cancel  context.CancelFunc // of the loops; nil if none run
	loops   sync.WaitGroup
	flushed chan struct{} // a marker came

	slow, keep, closeIn atomic.Int64
	kept                atomic.Pointer[perfbuf.Record]
	closed              chan struct{} // closed by the callback
}

func newReaders(s settings, out *wire.Writer) *readers {
	return &readers{settings: s, out: out, flushed: make(chan struct{}, 1), closed: make(chan struct{}, 1)}
}

func (r *readers) open() error {
	fds := strings.Split(r.settings["maps"], ",")
	r.all, r.stream, r.losses = nil, nil, map[[2]int]uint64{}
	r.rings = map[*perfbuf.Ring]*perfbuf.Stream{}
	for i, kind := range r.settings.kinds(len(fds)) {
		fd, err := strconv.Atoi(fds[i])
		if err != nil {
			return err
		}
		reader, err := r.openOne(fd, i, kind)
		if err != nil {
			return err
		}
		r.all = append(r.all, reader)
	}
	if err := r.openStream(); err != nil {
		return err
	}
	r.start()
	return nil
}

// openOne opens a reader that is named by its index.
func (r *readers) openOne(fd, index int, kind string) (*perfbuf.Reader, error) {
	name := strconv.Itoa(index)
	poll := time.Duration(r.settings.number("poll", 0)) * time.Millisecond
	if kind == "ringbuf" {
		o := perfbuf.RingBufOptions{Name: name, PollInterval: poll}
		if at := r.settings.number("time", -1); at >= 0 {
			o.Time = perfbuf.PayloadTime(at)
		}
		if at := r.settings.number("cpu", -1); at >= 0 {
			o.CPU = perfbuf.PayloadCPU(at)
		}
		return perfbuf.OpenRingBuf(fd, o)
	}
	o := perfbuf.Options{Name: name, RingBytes: r.settings.number("pages", 64) * os.Getpagesize()}
	if index == 0 {
		o.LanesFD, o.Lanes = r.settings.number("lanes", 0), r.settings.shares()
	}
	// An event per wakeup is what the default, the doorbell, gives while events are rare.
	if n := r.settings.number("wakeup_events", 1); n > 1 {
		o.Wakeup = perfbuf.Wakeup{Events: n, PollInterval: poll}
	}
	if n := r.settings.number("wakeup_bytes", 0); n > 0 {
		o.Wakeup = perfbuf.Wakeup{Bytes: n, PollInterval: poll}
	}
	return perfbuf.Open(fd, o)
}

func (r *readers) openStream() (err error) {
	way, order := r.settings["way"], r.settings["order"] == "time"
	o := perfbuf.StreamOptions{Order: perfbuf.Unordered()}
	switch {
	case way == "slack":
		o.Order = perfbuf.Slack(time.Millisecond)
	case way == "exact" || way == "" && order:
		o.Order = perfbuf.Order{}
	case order:
		return cannot("this way reads ring by ring; Reader.Stream and Merge order")
	case way == "rings":
		return nil
	}
	r.stream, err = perfbuf.Merge(o, r.all...)
	return err
}

// start starts the loops.
func (r *readers) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	for _, run := range r.runs() {
		r.loops.Go(func() {
			err := run(ctx)
			for errors.Is(err, perfbuf.ErrDisplaced) { // said once; the others' scenarios go on, and so does this reader
				err = run(ctx)
			}
			r.ended(ctx, err)
		})
	}
}

func (r *readers) ended(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, os.ErrClosed) {
		r.out.Text(wire.Error, err.Error())
	}
}

// stop ends the loops, as a user does: it cancels their context, and waits for them.
func (r *readers) stop() {
	if r.cancel != nil {
		r.cancel()
		r.loops.Wait()
		r.cancel = nil
	}
}

// deliver is the user's callback.
func (r *readers) deliver(ev perfbuf.Event) error {
	source, _ := strconv.Atoi(ev.Source()) // a marker has none
	switch ev.Kind() {
	case perfbuf.KindSample:
		if r.keep.CompareAndSwap(1, 0) {
			record := ev.Record()
			r.kept.Store(&record)
		}
		r.out.Write(wire.Frame{Type: wire.Event, Source: source, CPU: ev.CPU(), Time: ev.Time(), Data: ev.Bytes()})
		if r.closeIn.CompareAndSwap(1, 0) {
			r.all[source].Close()
			r.closed <- struct{}{}
		}
		spend(r.slow.Load())
	case perfbuf.KindLost:
		r.lost(source, ev.CPU(), ev.Lost())
		r.out.Losses(source, ev.CPU(), ev.Time(), ev.Lost())
	case perfbuf.KindShed:
		r.out.Shed(source, ev.CPU(), ev.Lane(), ev.Time(), ev.Lost())
	case perfbuf.KindCorrupt:
		r.out.Write(wire.Frame{Type: wire.Damaged, Source: source, CPU: ev.CPU(), Data: []byte(ev.Err().Error())})
	case perfbuf.KindFlushed:
		select {
		case r.flushed <- struct{}{}:
		default:
		}
	}
	return nil
}

func (r *readers) deliverBatch(b *perfbuf.Batch) error {
	for ev := range b.Events() {
		if err := r.deliver(ev); err != nil {
			return err
		}
	}
	return nil
}

func (r *readers) deliverRecord(record perfbuf.Record) {
	source, _ := strconv.Atoi(record.Source)
	switch record.Kind {
	case perfbuf.KindSample:
		if r.keep.CompareAndSwap(1, 0) {
			r.kept.Store(&record)
		}
		r.out.Write(wire.Frame{Type: wire.Event, Source: source, CPU: record.CPU, Time: record.Time, Data: record.Data})
		if r.closeIn.CompareAndSwap(1, 0) {
			r.all[source].Close()
			r.closed <- struct{}{}
		}
		spend(r.slow.Load())
	case perfbuf.KindLost:
		r.lost(source, record.CPU, record.Lost)
		r.out.Losses(source, record.CPU, record.Time, record.Lost)
	case perfbuf.KindShed:
		r.out.Shed(source, record.CPU, record.Lane, record.Time, record.Lost)
	case perfbuf.KindCorrupt:
		r.out.Write(wire.Frame{Type: wire.Damaged, Source: source, CPU: record.CPU, Data: []byte(record.Err.Error())})
	case perfbuf.KindFlushed:
		r.flushed <- struct{}{}
	}
}
