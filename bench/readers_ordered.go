package main

import (
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// Ordered streams, as results name them. An exact one with a provider of its own is named by it: see orders.
const (
	ringfoldExact    = "ringfold-exact"
	ringfoldSlack1   = "ringfold-slack-1ms"
	ringfoldSlack100 = "ringfold-slack-100ms" // what Tracee waits
)

// orders are the options of ordered streams, by reader.
func orders() map[string]perfbuf.StreamOptions {
	all := map[string]perfbuf.StreamOptions{
		ringfoldExact:    {},
		ringfoldSlack1:   {Order: perfbuf.Slack(time.Millisecond)},
		ringfoldSlack100: {Order: perfbuf.Slack(100 * time.Millisecond)},
	}
	for _, p := range providers() {
		all[p.name] = p.order()
	}
	return all
}

// orderedPeer is a ringfoldPeer that reads its rings as one stream, in order by the kernel's time of an output.
type orderedPeer struct {
	*ringfoldPeer
}

func openOrdered(c *collection, o options, order perfbuf.StreamOptions) (peer, error) {
	p, err := openRingfold(c, o, perfbuf.Wakeup{})
	if err != nil {
		return nil, err
	}
	r := p.(*ringfoldPeer)
	if err := r.open(order); err != nil {
		return nil, err
	}
	return &orderedPeer{r}, nil
}

// timing counts by the kernel's times: those in payloads are taken before, and two CPUs may have them the other way round.
func (p *orderedPeer) timing() timing {
	t := p.ringfoldPeer.timing()
	t.overtaken = p.r.Stats().Late
	return t
}

// orderNames are those that orders has, in the order of results.
func orderNames() []string {
	names := []string{ringfoldExact}
	for _, p := range providers() {
		names = append(names, p.name)
	}
	return append(names, ringfoldSlack1, ringfoldSlack100)
}
