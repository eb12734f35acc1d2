package trace

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// convert writes a trace of a recording: from its first event to its last. Of the rings it knows nothing.
func convert(ctx context.Context, c config, w io.Writer) (sum summary, err error) {
	r, err := perfdata.Open(c.file, perfdata.ReplayOptions{Reader: perfbuf.Options{RingBytes: c.ringBytes}})
	if err != nil {
		return sum, err
	}
	defer r.Close()
	s, err := r.Ordered(perfbuf.OrderOptions{})
	if err != nil {
		return sum, err
	}
	defer s.Close()

	cpus := r.Options().CPUs
	sum = summary{File: c.output, CPUs: len(cpus)}
	var t *trace
	var l *timeline
	var end uint64
	err = s.Run(ctx, func(ev perfbuf.Event) error {
		if l == nil {
			t = newTrace(w)
			if l, err = newTimeline(t, ev.Time(), cpus, &sum); err != nil {
				return err
			}
		}
		end = ev.Time()
		return handle(l, ev)
	})
	switch {
	case l == nil && err == io.EOF:
		return sum, fmt.Errorf("%s has no events", c.file)
	case l == nil:
		return sum, err
	case err == io.EOF || errors.Is(err, context.Canceled):
		err = nil
	case !errors.Is(err, io.ErrUnexpectedEOF): // of a recording that was cut, what is there is shown
		return sum, err
	}
	if err := l.finish(end); err != nil {
		return sum, err
	}
	sum.Seconds = float64(end-l.start) / 1e9
	return sum, errors.Join(err, t.close(map[string]any{"tool": "trace2perfetto", "version": perfbuf.Version().String(), "summary": sum}))
}
