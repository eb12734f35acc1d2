package fleet

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/agent"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// checker prints, and checks what it prints.
type checker struct {
	*printer
	last     int64
	disorder error
	hosts    map[string]*checked
}

// checked is what has come of a host.
type checked struct {
	events   uint64
	missing  map[wire.Gap_Reason]uint64
	unknown  bool // a gap does not know how many are missing
	lastTime uint64
}

func (c *checker) Put(i tail.Item) error {
	h := c.hosts[i.Host]
	if h == nil {
		h = &checked{missing: map[wire.Gap_Reason]uint64{}}
		c.hosts[i.Host] = h
	}
	if i.Wall != 0 && i.Wall < c.last && c.disorder == nil {
		c.disorder = fmt.Errorf("out of order: an event of %s is printed %v after a later one", i.Host, time.Duration(c.last-i.Wall))
	}
	c.last = max(c.last, i.Wall)
	if gap := i.Event.Gap; gap != nil {
		h.missing[gap.Reason] += gap.Count
		h.unknown = h.unknown || gap.Count == 0 && tail.Missing(gap.Reason)
	} else {
		if h.events++; i.Time < h.lastTime && c.disorder == nil {
			c.disorder = fmt.Errorf("out of order: %s's own events", i.Host)
		}
		h.lastTime = i.Time
	}
	return c.printer.Put(i)
}

// compare compares what has come of a host with what its agent has read.
func (c *checker) compare(host string, s agent.Stats) error {
	h := c.hosts[host]
	if h == nil {
		h = &checked{}
	}
	if h.unknown {
		return nil // the gap says so
	}
	if h.events+h.missing[wire.Gap_SPOOL_FULL] != s.Events || h.missing[wire.Gap_RING_FULL] != s.Lost[wire.Gap_RING_FULL] {
		return fmt.Errorf("%s: the agent has read %d events and lost %v; %d were printed, and gaps say %v", host, s.Events, s.Lost, h.events, h.missing)
	}
	return nil
}
