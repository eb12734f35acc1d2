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
	name string      // for people
	load *load       // either
	set  *source.Set // or
}

// open opens the rings, and counts from now on.
func (c *config) open() (*subject, error) {
	picks := newPicks(perfbuf.FullestFirst)
	if !c.own() {
		set, err := c.Open(perfbuf.Options{Schedule: picks.order})
		if err != nil {
			return nil, err
		}
		s := &subject{set: set}
		var readers []*perfbuf.Reader
		var names []string
		for _, from := range set.Sources {
			readers, names = append(readers, from.Reader), append(names, from.String())
		}
		s.name = strings.Join(names, ", ")
		if len(names) == 1 {
			names = []string{""}
		}
		s.session = newSession(readers, names, picks, modeOf(c.Mode), c.Slack)
		if n := s.snapshot().stats.ReplacedEntries; n > 0 {
			s.name += fmt.Sprintf(", taken from a reader of %d rings", n)
		}
		return s, nil
	}
	l, err := newLoad()
	if err != nil {
		return nil, err
	}
	r, err := perfbuf.Open(l.eventsFD(), perfbuf.Options{RingBytes: int(c.RingSize), CPUs: c.CPUs, Schedule: picks.order,
		Outputs: perfbuf.OutputCounts{MapFD: l.outputsFD()}})
	if err != nil {
		l.Close()
		return nil, err
	}
	s := &subject{name: fmt.Sprintf("own load, %s/s and CPU", cli.Count(uint64(c.load))), load: l}
	s.session = newSession([]*perfbuf.Reader{r}, []string{""}, picks, modeOf(c.Mode), c.Slack)
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
	if s.load == nil {
		s.set.Close()
		return
	}
	s.close()
	s.load.Close()
}
