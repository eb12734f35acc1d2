package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// session reads one map or several in the mode that is asked for. Its methods may be called while run runs, and do not block.
type session struct {
	set     *source.Set
	readers []*perfbuf.Reader // of the set
	picks   *picks
	slack   time.Duration
	began   time.Time

	mu      sync.Mutex
	mode    mode
	paused  bool
	problem string
	turn    context.CancelFunc // ends reading in the present mode
}

// newSession reads what was opened, with picks as its Schedule, and counts from now on.
func newSession(set *source.Set, picks *picks, m mode, slack time.Duration) *session {
	s := &session{set: set, picks: picks, mode: m, slack: slack, began: time.Now(), turn: func() {}}
	for _, from := range set.Sources {
		s.readers = append(s.readers, from.Reader)
	}
	return s
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
func (s *session) begin(cancel context.CancelFunc) mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = cancel
	return s.mode
}

// read reads in one mode until ctx ends.
func (s *session) read(ctx context.Context, m mode) error {
	if m == unordered {
		return s.readUnordered(ctx)
	}
	stream, err := perfbuf.Merge(perfbuf.StreamOptions{Order: m.order(s.slack)}, s.readers...)
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

// readUnordered reads each map by itself. It returns when ctx ends, all recordings have, or one has failed.
func (s *session) readUnordered(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, r := range s.readers {
		all.Go(func() {
			if err := r.RunBatches(ctx, discard); err != io.EOF {
				cancel(err)
			}
		})
	}
	all.Wait()
	cancel(io.EOF)
	return context.Cause(ctx)
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

// note shows a line.
func (s *session) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = what
}

// changeMode goes over to the next mode.
func (s *session) changeMode() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode, s.problem = s.mode.next(), ""
	s.turn()
}

// togglePause takes the rings out of the maps, or puts them back. Ring buffers stay as they are.
func (s *session) togglePause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = ""
	did := false
	var failed error
	for _, r := range s.readers {
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

// state is what there is to know without counts.
func (s *session) state() (m mode, paused bool, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode, s.paused, s.problem
}

// snapshot is what is known now.
func (s *session) snapshot() snapshot {
	now := snapshot{at: time.Now()}
	for _, from := range s.set.Sources {
		name := ""
		if len(s.readers) > 1 {
			name = from.String()
		}
		now.add(name, from.Stats())
	}
	now.mode, now.paused, now.problem = s.state()
	if now.last = noCPU; len(s.readers) == 1 {
		now.first, now.last = s.picks.counts()
	}
	return now
}

// finish delivers what the rings still hold, closes the readers, and returns the counts, which are final then. run must have returned.
func (s *session) finish() (snapshot, error) {
	// Not a context that has ended. It waits for programs that are running, some ms as a rule.
	var failed error
	for _, r := range s.readers {
		failed = errors.Join(failed, r.Shutdown(context.Background(), func(perfbuf.Event) error { return nil }))
		r.Close()
		<-r.Done()
	}
	return s.snapshot(), failed
}
