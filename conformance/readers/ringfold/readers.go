//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/ringfold/ringfold/conformance/readers/internal/adapter"
	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/perfbuf"
)

// readers reads maps by package perfbuf.
type readers struct {
	settings adapter.Settings
	user     *adapter.User

	all    []*perfbuf.Reader
	stream *perfbuf.Stream // nil: each ring by itself
	rings  map[*perfbuf.Ring]*perfbuf.Stream

	lossesMu sync.Mutex
	losses   map[[2]int]uint64 // that were sent, by source and CPU

	cancel  context.CancelFunc // of the loops; nil if none run
	loops   sync.WaitGroup
	flushed chan struct{} // a marker came
}

func (r *readers) Open() error {
	r.all, r.stream, r.losses = nil, nil, map[[2]int]uint64{}
	r.rings = map[*perfbuf.Ring]*perfbuf.Stream{}
	for i, m := range r.settings.Maps {
		reader, err := r.openOne(i, m)
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
func (r *readers) openOne(index int, m adapter.Map) (*perfbuf.Reader, error) {
	s, name := r.settings, strconv.Itoa(index)
	if m.RingBuf {
		o := perfbuf.Options{Name: name, Wakeup: perfbuf.Wakeup{PollInterval: s.Poll}}
		if s.TimeAt >= 0 {
			o.Time = perfbuf.PayloadTime(s.TimeAt)
		}
		if s.CPUAt >= 0 {
			o.CPU = perfbuf.PayloadCPU(s.CPUAt)
		}
		return perfbuf.OpenRingBuf(m.FD, o)
	}
	o := perfbuf.Options{Name: name, RingBytes: s.Pages * os.Getpagesize()}
	if index == 0 {
		o.LanesFD, o.Lanes = s.Lanes, s.Shares
	}
	// An event per wakeup is what the default, the doorbell, gives while events are rare.
	if s.WakeupEvents > 1 {
		o.Wakeup = perfbuf.Wakeup{Events: s.WakeupEvents, PollInterval: s.Poll}
	}
	if s.WakeupBytes > 0 {
		o.Wakeup = perfbuf.Wakeup{Bytes: s.WakeupBytes, PollInterval: s.Poll}
	}
	return perfbuf.Open(m.FD, o)
}

func (r *readers) openStream() (err error) {
	way, order := r.settings.Way, r.settings.Ordered
	o := perfbuf.StreamOptions{Order: perfbuf.Unordered()}
	switch {
	case way == "slack":
		o.Order = perfbuf.Slack(time.Millisecond)
	case way == "exact" || way == "" && order:
		o.Order = perfbuf.Order{}
	case order:
		return adapter.Cannot("this way reads ring by ring; Reader.Stream and Merge order")
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
		r.user.Error(err)
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
		f := wire.Frame{Type: wire.Event, Source: source, CPU: ev.CPU(), Time: ev.Time(), Data: ev.Bytes()}
		if r.user.Keeps() {
			kept := f
			kept.Data = ev.Record().Data
			r.user.Keep(kept)
		}
		r.deliverFrame(f)
	case perfbuf.KindLost:
		r.lost(source, ev.CPU(), ev.Lost())
		r.user.Out.Losses(source, ev.CPU(), ev.Time(), ev.Lost())
	case perfbuf.KindShed:
		r.user.Out.Shed(source, ev.CPU(), ev.Lane(), ev.Time(), ev.Lost())
	case perfbuf.KindCorrupt:
		r.user.Out.Write(wire.Frame{Type: wire.Damaged, Source: source, CPU: ev.CPU(), Data: []byte(ev.Err().Error())})
	case perfbuf.KindFlushed:
		select {
		case r.flushed <- struct{}{}:
		default:
		}
	}
	return nil
}

func (r *readers) deliverFrame(f wire.Frame) {
	if r.user.Deliver(f) {
		r.all[f.Source].Close()
		r.user.Closed()
	}
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
		f := wire.Frame{Type: wire.Event, Source: source, CPU: record.CPU, Time: record.Time, Data: record.Data}
		if r.user.Keeps() {
			r.user.Keep(f)
		}
		r.deliverFrame(f)
	case perfbuf.KindLost:
		r.lost(source, record.CPU, record.Lost)
		r.user.Out.Losses(source, record.CPU, record.Time, record.Lost)
	case perfbuf.KindShed:
		r.user.Out.Shed(source, record.CPU, record.Lane, record.Time, record.Lost)
	case perfbuf.KindCorrupt:
		r.user.Out.Write(wire.Frame{Type: wire.Damaged, Source: source, CPU: record.CPU, Data: []byte(record.Err.Error())})
	case perfbuf.KindFlushed:
		r.flushed <- struct{}{}
	}
}
