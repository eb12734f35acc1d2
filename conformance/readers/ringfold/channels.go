//go:build linux

package main

import (
	"errors"
	"sync"

	"github.com/ringfold/ringfold/conformance/readers/internal/adapter"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
)

// channels reads a map by package perfchan.
type channels struct {
	settings adapter.Settings
	user     *adapter.User
	buffer   *perfchan.PerfBuffer
	done     sync.WaitGroup
}

// descriptor is what InitPerfBuf looks for in a module: a map, by its descriptor.
type descriptor int

func (d descriptor) FileDescriptor() int               { return int(d) }
func (d descriptor) GetMap(string) (descriptor, error) { return d, nil }

func (c *channels) Open() (err error) {
	m := c.settings.Maps
	switch {
	case len(m) > 1 || m[0].RingBuf:
		return adapter.Cannot("perfchan reads one perf event array")
	case c.settings.WakeupBytes > 0 || c.settings.WakeupEvents > 1:
		return adapter.Cannot("perfchan has no wakeup setting")
	}
	events, lost := make(chan []byte, 1024), make(chan uint64, 64)
	c.buffer, err = perfchan.InitPerfBuf(descriptor(m[0].FD), "events", events, lost, c.settings.Pages)
	if err != nil {
		return err
	}
	c.done.Go(func() {
		for b := range events {
			if c.user.Event(0, -1, b) {
				c.buffer.Close()
				c.user.Closed()
			}
		}
	})
	c.done.Go(func() {
		for n := range lost {
			c.user.Lost(0, -1, n)
		}
	})
	c.buffer.Poll(300)
	return nil
}

func (c *channels) Do(command string, n int) error {
	switch command {
	case "close2":
		c.buffer.Close()
		c.close()
	case "close":
		c.close()
	case "reopen":
		return c.Open()
	case "stop", "go":
		return adapter.Cannot("Stop is for good")
	default:
		return adapter.Cannot("perfchan has no such call")
	}
	return nil
}

// close closes the buffer. An error of reading is told then, as Err does.
func (c *channels) close() {
	c.buffer.Close()
	c.done.Wait()
	if err := c.buffer.Err(); err != nil && !errors.Is(err, perfbuf.ErrDisplaced) {
		c.user.Damaged(0, err)
	}
}
