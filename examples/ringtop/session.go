package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// session reads a map in the mode that is asked for. Its methods may be called while run runs, and do not block.
type session struct {
	reader *perfbuf.Reader
	picks  *picks
	slack  time.Duration
	began  time.Time

	mu      sync.Mutex
	mode    mode
	paused  bool
	problem string
	turn    context.CancelFunc // ends reading in the present mode
}

// openSession opens the map's rings, and counts from now on.
func openSession(mapFD int, o perfbuf.Options, m mode, slack time.Duration) (*session, error) {
	s := &session{picks: newPicks(perfbuf.FullestFirst()), mode: m, slack: slack, turn: func() {}}
	o.Schedule = s.picks
	var err error
	if s.reader, err = perfbuf.Open(mapFD, o); err != nil {
		return nil, err
	}
	s.began = time.Now()
	return s, nil
}

// run reads until ctx ends.
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
func (s *session) begin(cancel context.CancelFunc) mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = cancel
	return s.mode
}

// read reads in one mode until ctx ends.
func (s *session) read(ctx context.Context, m mode) error {
	if m == unordered {
		return s.reader.RunBatches(ctx, discard)
	}
	stream, err := s.reader.Ordered(perfbuf.OrderOptions{Mode: m.order(s.slack)})
	if err != nil {
		return s.fallBack(m, err)
	}
	defer stream.Close()
	if err := stream.RunBatches(ctx, discard); errors.Is(err, perfbuf.ErrBarriers) {
		return s.fallBack(m, err)
	} else if ctx.Err() == nil {
		return err
	}
	return stream.ForEachPending(func(perfbuf.Event) error { return nil }) // else what it holds would be dropped
}

// discard takes a batch without a look at its events: Stats counts them.
func discard(*perfbuf.Batch) error { return nil }

// fallBack goes on without order, and says why.
func (s *session) fallBack(m mode, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode == m { // not changed meanwhile
		s.mode, s.problem = unordered, fmt.Sprintf("%v mode: %v", m, err)
	}
	return nil
}

// changeMode goes over to the next mode.
func (s *session) changeMode() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode, s.problem = s.mode.next(), ""
	s.turn()
}

// togglePause takes the rings out of the map, or puts them back.
func (s *session) togglePause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = ""
	call := s.reader.Pause
	if s.paused {
		call = s.reader.Resume
	}
	if err := call(); err != nil {
		s.problem = err.Error()
		return
	}
	s.paused = !s.paused
}

// state is what there is to know without counts.
func (s *session) state() (m mode, paused bool, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode, s.paused, s.problem
}

// snapshot is what is known now.
func (s *session) snapshot() snapshot {
	now := snapshot{at: time.Now(), stats: s.reader.Stats()}
	now.mode, now.paused, now.problem = s.state()
	now.first, now.last = s.picks.counts()
	return now
}

// finish delivers what the rings still hold, closes the reader, and returns the counts, which are final then. run must have returned.
func (s *session) finish() (snapshot, error) {
	// Not a context that has ended. It waits for programs that are running, some ms as a rule.
	err := s.reader.Shutdown(context.Background(), func(perfbuf.Event) error { return nil })
	s.reader.Close()
	<-s.reader.Done()
	return s.snapshot(), err
}
