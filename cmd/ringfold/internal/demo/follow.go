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
	load := newWorkload(ctx)
	defer load.stop()
	if !c.simulate {
		if err := load.start(cpus); err != nil {
			return nil, err
		}
	}
	if c.duration > 0 { // from when there is something to see on each CPU
		defer time.AfterFunc(c.duration, load.end).Stop()
	}
	if err := s.RunBatches(load.ctx, f.batch); err != nil && load.ctx.Err() == nil {
		return nil, err
	}
	if err := load.stop(); err != nil {
		return nil, err
	}
	if err := src.Detach(); err != nil {
		return nil, err
	}
	if !f.full() { // what is left
		// Not the context of before, which is done. Further signals end this too: see cli.Main.
		ctx, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("programs still run %v after they were detached", patience))
		defer cancel()
		if err := s.Drain(ctx, f.event); err != nil {
			return nil, err
		}
	}
	f.sum.endRound()
	elapsed := time.Since(begin)
	r.Close() // makes the counts final
	f.sum.finish(elapsed, r.Stats())
	f.printer.summary(f.sum)
	if err := f.out.Flush(); err != nil {
		return nil, err
	}
	return f.sum, f.sum.verdict()
}

// patience is far more than programs that were running when they were detached take to end.
const patience = 30 * time.Second

// follower prints a stream.
type follower struct {
	limit   uint64 // events to print, 0 for no limit
	printer printer
	out     *bufio.Writer
	sum     *summary
}

func (f *follower) full() bool { return f.limit > 0 && f.sum.Events >= f.limit }

// batch prints events. At the end of a pass over the rings it flushes the output, and the summary learns what was there together.
func (f *follower) batch(b *perfbuf.Batch) error {
	if b.End() {
		f.sum.endRound()
		return f.out.Flush()
	}
	for ev := range b.Events() {
		if err := f.event(ev); err != nil {
			return err
		}
	}
	return nil
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
