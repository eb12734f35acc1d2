package main

import (
	"errors"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// ringfoldTwoSources is ringfold-ordered with a second source, a ring buffer of another collection, into which nothing is output.
const ringfoldTwoSources = "ringfold-2-sources"

// firstOfSources is first-event over a perf event array and over a ring buffer.
func firstOfSources(r *run) error {
	for _, c := range []struct {
		name    string
		readers []string
		o       options
	}{
		{"perf event array", []string{ringfold, ringfoldOrdered, ringfoldTwoSources, libbpfC, cilium}, options{ringBytes: 256 << 10, timed: true}},
		{"ring buffer", []string{ringfold, ringfoldOrdered, ringfoldTwoSources, libbpfC, ciliumRingbuf}, options{ringBytes: 256 << 10, timed: true, ringBuf: true}},
	} {
		if err := firstEvents(r, c.name+", ", c.readers, c.o); err != nil {
			return err
		}
	}
	return nil
}

// streamPeer is a ringfoldPeer that reads a stream, with another source perhaps.
type streamPeer struct {
	*ringfoldPeer
	idle *collection
	more *perfbuf.Reader
}

// openStream makes a stream of what a peer reads, and of an idle ring buffer if two is set.
func openStream(p *ringfoldPeer, two bool) (peer, error) {
	s := &streamPeer{ringfoldPeer: p}
	var more []*perfbuf.Reader
	var err error
	if two {
		if s.idle, err = load(ciliumRingbuf, options{ringBytes: 64 << 10}); err != nil {
			return nil, errors.Join(err, s.close())
		}
		if s.more, err = perfbuf.OpenRingBuf(s.idle.FD(workload.Shared), perfbuf.Options{Time: perfbuf.PayloadTime(workload.TimeOffset)}); err != nil {
			return nil, errors.Join(err, s.close())
		}
		more = append(more, s.more)
	}
	if err := p.open(perfbuf.StreamOptions{Order: perfbuf.Slack(0), Spill: perfbuf.Spill{Bytes: -1}}, more...); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *streamPeer) close() error {
	err := s.ringfoldPeer.close()
	if s.more != nil {
		err = errors.Join(err, s.more.Close())
	}
	if s.idle != nil {
		s.idle.close()
	}
	return err
}
