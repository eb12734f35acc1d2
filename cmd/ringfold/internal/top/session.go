package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// session reads the load, or the maps and recordings that the command line names, in the mode that is asked for. Its
// methods may be called while run runs, and do not block.
type session struct {
	set   *source.Set
	load  *load  // nil: the programs of others
	name  string // of all that is read, for people
	picks *picks
	slack time.Duration
	began time.Time

	mu      sync.Mutex
	mode    source.Mode
	paused  bool
	problem string
	turn    context.CancelFunc // ends reading in the present mode
}

// open opens the rings, and counts from now on.
func (c *config) open() (s *session, err error) {
	s = &session{picks: newPicks(), mode: c.Mode, slack: c.Slack, began: time.Now(), turn: func() {}}
	if c.own() {
		err = s.openLoad(c)
	} else if s.set, err = c.Choose(); err == nil {
		err = s.set.TakeOver(perfbuf.Options{Schedule: s.picks.order})
		var names []string
		for _, from := range s.set.Sources {
			names = append(names, from.String())
		}
		s.name = strings.Join(names, ", ")
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if n := s.snapshot().stats.ReplacedEntries; n > 0 {
		s.name += fmt.Sprintf(", taken from a reader of %d rings", n)
	}
	return s, nil
}

func (s *session) openLoad(c *config) (err error) {
	if s.load, err = newLoad(); err != nil {
		return err
	}
	reader, err := perfbuf.Open(s.load.eventsFD(), perfbuf.Options{RingBytes: int(c.RingSize), CPUs: c.CPUs, Schedule: s.picks.order,
		LanesFD: s.load.lanesFD()})
	if err != nil {
		return err
	}
	s.set, s.name = c.Own("", reader), fmt.Sprintf("own load, %s/s and CPU", cli.Count(uint64(c.load)))
	return nil
}

// Close gives the maps back, and ends the load.
func (s *session) Close() {
	if s.set != nil {
		s.set.Close()
	}
	if s.load != nil {
		s.load.Close()
	}
}

// readers are those of the set.
func (s *session) readers() (all []*perfbuf.Reader) {
	for _, from := range s.set.Sources {
		all = append(all, from.Reader)
	}
	return all
}

// run reads until ctx ends, or a recording: then it returns io.EOF.
func (s *session) run(ctx context.Context) error {
	for {
		turn, cancel := context.WithCancel(ctx)
		err := s.read(turn, s.begin(cancel))
		changed := turn.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case changed:
		case err != nil:
			return err
		}
	}
}

// begin notes how to end reading in the mode that it returns.
func (s *session) begin(cancel context.CancelFunc) source.Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = cancel
	return s.mode
}

// read reads in one mode until ctx ends, all recordings have, or one has failed.
func (s *session) read(ctx context.Context, m source.Mode) error {
	var o perfbuf.StreamOptions
	switch m {
	case source.Unordered:
		o.Order = perfbuf.Unordered()
	case source.Slack:
		o.Order = perfbuf.Slack(s.slack)
	}
	stream, err := perfbuf.Merge(o, s.readers()...)
	if err == nil {
		defer stream.Close()
		err = stream.RunBatches(ctx, discard)
	}
	switch {
	case ctx.Err() != nil && stream != nil:
		return stream.ForEachPending(ignore) // or what it holds would be dropped
	case errors.Is(err, perfbuf.ErrBarriers) || stream == nil && m != source.Unordered:
		return s.fallBack(m, err)
	}
	return err
}

// discard takes a batch without a look at its events: Stats counts them.
func discard(*perfbuf.Batch) error { return nil }

func ignore(perfbuf.Event) error { return nil }

// fallBack goes on without order, and says why.
func (s *session) fallBack(m source.Mode, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode == m { // not changed meanwhile
		s.mode, s.problem = source.Unordered, fmt.Sprintf("%v mode: %v", m, err)
	}
	return nil
}

// note shows a line.
func (s *session) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = what
}

// modes, in the order in which the key chooses them.
var modes = []source.Mode{source.Unordered, source.Slack, source.Exact}

// changeMode goes over to the next mode.
func (s *session) changeMode() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode, s.problem = modes[(slices.Index(modes, s.mode)+1)%len(modes)], ""
	s.turn()
}

// togglePause takes the rings out of the maps, or puts them back. Ring buffers stay as they are.
func (s *session) togglePause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = ""
	did := false
	var failed error
	for _, r := range s.readers() {
		call := r.Pause
		if s.paused {
			call = r.Resume
		}
		err := call()
		did = did || err == nil
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		s.problem = failed.Error()
	}
	if did {
		s.paused = !s.paused
	}
}

// state returns all but the counts.
func (s *session) state() (m source.Mode, paused bool, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode, s.paused, s.problem
}

// snapshot returns the present state.
func (s *session) snapshot() snapshot {
	now := snapshot{at: time.Now(), last: noCPU}
	alone := len(s.set.Sources) == 1
	for _, from := range s.set.Sources {
		name := ""
		if !alone {
			name = from.String()
		}
		now.add(name, from.Stats())
	}
	now.mode, now.paused, now.problem = s.state()
	if alone {
		now.first, now.last = s.picks.counts()
	}
	return now
}

// finish delivers what the rings still hold, closes the readers, and returns the counts, which are final then. run must have returned.
func (s *session) finish() (snapshot, error) {
	stream, err := perfbuf.Merge(perfbuf.StreamOptions{Order: perfbuf.Unordered()}, s.readers()...)
	if err == nil {
		// Not a context that has ended. It waits for programs that are running, some ms as a rule.
		err = stream.Shutdown(context.Background(), ignore)
	}
	s.set.Close()
	return s.snapshot(), err
}
