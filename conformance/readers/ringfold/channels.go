//go:build linux

package main

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
)

// channels reads a map by package perfchan.
type channels struct {
	settings settings
	out      *wire.Writer
	buffer   *perfchan.PerfBuffer
	done     sync.WaitGroup

	slow, keep, closeIn atomic.Int64
	kept                atomic.Pointer[[]byte]
	closed              chan struct{}
}

func newChannels(s settings, out *wire.Writer) *channels {
	return &channels{settings: s, out: out, closed: make(chan struct{}, 1)}
}

// descriptor is what InitPerfBuf looks for in a module: a map, by its descriptor.
type descriptor int

func (d descriptor) FileDescriptor() int               { return int(d) }
func (d descriptor) GetMap(string) (descriptor, error) { return d, nil }

func (c *channels) open() error {
	fd, err := strconv.Atoi(c.settings["maps"])
	switch {
	case err != nil || c.settings["kind"] == "ringbuf":
		return cannot("perfchan reads one perf event array")
	case c.settings["wakeup_bytes"] != "" || c.settings.number("wakeup_events", 1) != 1:
		return cannot("perfchan has no wakeup setting")
	}
	events, lost := make(chan []byte, 1024), make(chan uint64, 64)
	c.buffer, err = perfchan.InitPerfBuf(descriptor(fd), "events", events, lost, c.settings.number("pages", 64))
	if err != nil {
		return err
	}
	c.done.Go(func() {
		for b := range events {
			c.deliver(b)
		}
	})
	c.done.Go(func() {
		for n := range lost {
			c.out.Losses(0, -1, 0, n)
		}
	})
	c.buffer.Poll(300)
	return nil
}

func (c *channels) deliver(b []byte) {
	if c.keep.CompareAndSwap(1, 0) {
		c.kept.Store(&b)
	}
	c.out.Write(wire.Frame{Type: wire.Event, CPU: -1, Data: b})
	if c.closeIn.CompareAndSwap(1, 0) {
		c.buffer.Close()
		c.closed <- struct{}{}
	}
	spend(c.slow.Load())
}

func (c *channels) do(command string, n int) error {
	switch command {
	case "slow":
		c.slow.Store(int64(n))
	case "allocations":
		return c.out.Allocations()
	case "keep":
		c.keep.Store(1)
	case "kept":
		return c.out.Write(wire.Frame{Type: wire.Event, CPU: -1, Data: *c.kept.Load()})
	case "close2":
		c.buffer.Close()
		c.close()
	case "close":
		c.close()
	case "closein":
		c.closeIn.Store(1)
		<-c.closed
		c.close()
	case "reopen":
		return c.open()
	case "stop", "go":
		return cannot("Stop is for good")
	default:
		return cannot("perfchan has no such call")
	}
	return nil
}

// close closes the buffer. An error of reading is told then, as Err does.
func (c *channels) close() {
	c.buffer.Close()
	c.done.Wait()
	if err := c.buffer.Err(); err != nil && !errors.Is(err, perfbuf.ErrDisplaced) {
		c.out.Write(wire.Frame{Type: wire.Damaged, CPU: -1, Data: []byte(err.Error())})
	}
}
