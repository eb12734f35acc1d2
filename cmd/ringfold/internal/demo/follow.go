package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/perfbuf"
)

// printer prints what is followed. Its output keeps errors.
type printer interface {
	header(cpus int)
	event(*event)
	summary(*summary)
}

// jsonLines prints an object per line. The last line has the summary instead.
type jsonLines struct{ *json.Encoder }

func newJSON(w io.Writer) jsonLines {
	e := json.NewEncoder(w) // names of programs and files may hold any bytes: what is not UTF-8 becomes U+FFFD
	e.SetEscapeHTML(false)
	return jsonLines{e}
}

func (jsonLines) header(int)           {}
func (j jsonLines) event(e *event)     { j.Encode(e) }
func (j jsonLines) summary(s *summary) { j.Encode(map[string]*summary{"summary": s}) }

// follow prints events to w until ctx is done, or as long as the configuration says, and returns their summary. It closes src and r.
func follow(ctx context.Context, c config, src source, r *perfbuf.Reader, w io.Writer) (*summary, error) {
	defer src.Close()
	defer r.Close()
	load, err := newWorkload(!c.simulate)
	if err != nil {
		return nil, err
	}
	s, err := r.Stream(perfbuf.StreamOptions{Order: c.order()})
	if err != nil {
		return nil, err
	}
	defer s.Close()

	cpus := r.Options().CPUs
	f := &follower{limit: c.count, out: bufio.NewWriterSize(w, 64<<10), sum: newSummary(c, cpus)}
	if f.printer = newJSON(f.out); c.Format != cli.JSON {
		f.printer = newText(f.out, w, c)
	}
	f.printer.header(len(cpus))
	if err := f.out.Flush(); err != nil {
		return nil, err
	}
	if err := src.Attach(); err != nil {
		return nil, err
	}
	begin := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	load.start(cpus, cancel)
	defer load.stop()
	if c.duration > 0 { // from when there is something to see on each CPU
		defer time.AfterFunc(c.duration, cancel).Stop()
	}

	if err := f.follow(ctx, s); err != nil {
		return nil, err
	}
	if err := load.stop(); err != nil {
		return nil, err
	}
	if err := src.Detach(); err != nil {
		return nil, err
	}
	if err := f.rest(s); err != nil {
		return nil, err
	}
	elapsed := time.Since(begin)
	r.Close() // makes the counts final
	f.sum.finish(elapsed, r.Stats())
	f.printer.summary(f.sum)
	if err := f.out.Flush(); err != nil {
		return nil, err
	}
	return f.sum, f.sum.verdict()
}

// follower prints a stream, round by round.
type follower struct {
	limit   uint64 // events to print, 0 for no limit
	printer printer
	out     *bufio.Writer
	sum     *summary
}

func (f *follower) full() bool { return f.limit > 0 && f.sum.Events >= f.limit }

// follow reads until ctx is done or there were enough events.
//
// s.Run(ctx, f.event) would do the same in one call. The loop is here because it knows where
// a round ends: then the output is flushed, and the summary learns what was read together.
func (f *follower) follow(ctx context.Context, s *perfbuf.Stream) error {
	for !f.full() {
		if err := s.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := f.round(s.ForEach); err != nil {
			return err
		}
	}
	return nil
}

// patience is far more than programs that were running when they were detached take to end.
const patience = 30 * time.Second

// rest prints what is left when the programs are detached.
func (f *follower) rest(s *perfbuf.Stream) error {
	if f.full() {
		return nil
	}
	// Not the context of before, which is done. Further signals end this too: see cli.Main.
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("programs still run %v after they were detached", patience))
	defer cancel()
	return f.round(func(event func(perfbuf.Event) error) error { return s.Drain(ctx, event) })
}

// round makes one pass over all rings.
func (f *follower) round(pass func(func(perfbuf.Event) error) error) error {
	err := pass(f.event)
	f.sum.endRound()
	if err != nil {
		return err
	}
	return f.out.Flush()
}

func (f *follower) event(ev perfbuf.Event) error {
	e, err := decode(ev)
	if err != nil {
		return err
	}
	f.sum.add(&e, perfbuf.Now())
	f.printer.event(&e)
	if f.full() {
		return perfbuf.ErrStop
	}
	return nil
}
