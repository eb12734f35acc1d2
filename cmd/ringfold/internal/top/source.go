package top

import (
	"fmt"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// subject is what is looked at: the load, or what the command line names.
type subject struct {
	*session
	name string // for people
	load *load  // nil: others'
}

// open opens the rings, and counts from now on.
func (c *config) open() (*subject, error) {
	picks := newPicks(perfbuf.FullestFirst)
	s, set, err := &subject{}, (*source.Set)(nil), error(nil)
	if c.own() {
		if s.load, err = newLoad(); err != nil {
			return nil, err
		}
		r, err := perfbuf.Open(s.load.eventsFD(), perfbuf.Options{RingBytes: int(c.RingSize), CPUs: c.CPUs, Schedule: picks.order,
			Outputs: perfbuf.OutputCounts{MapFD: s.load.outputsFD()}})
		if err != nil {
			s.load.Close()
			return nil, err
		}
		set, s.name = c.Own("", r), fmt.Sprintf("own load, %s/s and CPU", cli.Count(uint64(c.load)))
	} else {
		if set, err = c.Choose(); err != nil {
			return nil, err
		}
		if err := set.TakeOver(perfbuf.Options{Schedule: picks.order}); err != nil {
			set.Close()
			return nil, err
		}
		var names []string
		for _, from := range set.Sources {
			names = append(names, from.String())
		}
		s.name = strings.Join(names, ", ")
	}
	s.session = newSession(set, picks, modeOf(c.Mode), c.Slack)
	if n := s.snapshot().stats.ReplacedEntries; n > 0 {
		s.name += fmt.Sprintf(", taken from a reader of %d rings", n)
	}
	return s, nil
}

// start begins with the load, if it is ours.
func (s *subject) start(perSecond int, failed func(error)) error {
	if s.load == nil {
		return nil
	}
	return s.load.start(perSecond, failed)
}

// end ends the load. Others go on.
func (s *subject) end() {
	if s.load != nil {
		s.load.end()
	}
}

// Close gives the maps back.
func (s *subject) Close() {
	s.set.Close()
	if s.load != nil {
		s.load.Close()
	}
}
