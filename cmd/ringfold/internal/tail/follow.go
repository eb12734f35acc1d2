package tail

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// printer turns events into bytes.
type printer interface {
	header(b []byte) []byte
	event(b []byte, ev perfbuf.Event, from string, fields fields) []byte // from is empty if there is but one map, fields is nil without a type
	summary(b []byte, s *summary) []byte
}

// follow prints events to w until ctx is done, or as long as the configuration says. It tells notices to note.
func follow(ctx context.Context, c config, w io.Writer, note func(format string, args ...any)) error {
	if err := writable(c); err != nil { // before anybody is silenced for nothing
		return err
	}
	all, err := openSources(c)
	if err != nil {
		return err
	}
	defer closeSources(all)
	in, err := merge(c, all)
	if err != nil {
		return err
	}
	rec, err := newRecorder(c, all)
	if err != nil {
		return err
	}
	if rec != nil {
		defer rec.Close()
	}
	f := &follower{limit: c.limit, quiet: c.stats, note: note, rec: rec, out: bufio.NewWriterSize(w, 64<<10), sum: newSummary(c), sources: map[*perfbuf.Reader]*source{}}
	if c.json {
		f.printer = &jsonArray{}
	} else {
		f.printer = newText(c, all)
	}
	begin := time.Now()
	for _, s := range all {
		f.sources[s.reader] = s
		announce(note, s)
	}
	if !c.stats {
		f.out.Write(f.printer.header(nil))
	}
	if err := f.out.Flush(); err != nil {
		return err
	}
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	end := f.follow(ctx, in)
	if end != nil && !errors.Is(end, io.EOF) && !errors.Is(end, io.ErrUnexpectedEOF) {
		return end
	}
	if end == nil && !f.full() {
		// The programs are others' and go on. Shutdown takes the rings out of the maps, so that the rest has an end.
		// Not the context of before, which is done. A second Ctrl-C ends the program.
		if err := f.round(func(event func(perfbuf.Event) error) error { return in.Shutdown(context.Background(), event) }); err != nil {
			return err
		}
	}
	for _, s := range all {
		s.reader.Close()
		<-s.reader.Done() // makes the counts final
	}
	f.sum.finish(time.Since(begin), all)
	f.out.Write(f.printer.summary(nil, f.sum))
	if rec != nil {
		err = rec.Close()
	}
	if end == io.EOF {
		end = nil
	}
	return errors.Join(err, end, f.out.Flush()) // of a recording that was cut, all that is there has been shown
}

// follower prints a stream, round by round.
type follower struct {
	limit   uint64 // samples to print, 0 for no limit
	quiet   bool   // print no events
	printer printer
	sources map[*perfbuf.Reader]*source
	note    func(format string, args ...any)
	rec     *perfdata.Recorder // nil: nothing is recorded
	out     *bufio.Writer
	line    []byte
	sum     *summary
	told    bool // that events are shorter than their type
}

func (f *follower) full() bool { return f.limit > 0 && f.sum.Events >= f.limit }

// follow reads until ctx is done or there were enough events. At the end of a recording it returns what Wait does.
//
// s.Run(ctx, f.event) would do the same in one call. The loop is here because it knows where a round ends: then the output
// is flushed.
func (f *follower) follow(ctx context.Context, s events) error {
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

// round makes one pass over all rings.
func (f *follower) round(pass func(func(perfbuf.Event) error) error) error {
	if err := pass(f.event); err != nil {
		return err
	}
	if f.rec != nil {
		if err := f.rec.Flush(); err != nil {
			return err
		}
	}
	return f.out.Flush()
}

func (f *follower) event(ev perfbuf.Event) error {
	f.sum.add(ev)
	if f.rec != nil {
		if err := f.rec.Record(ev); err != nil {
			return err
		}
	}
	if !f.quiet {
		from := f.sources[ev.Source()]
		f.line = f.printer.event(f.line[:0], ev, from.label, f.decode(from.decoder, ev))
		if _, err := f.out.Write(f.line); err != nil {
			return err
		}
	}
	if f.full() {
		return perfbuf.ErrStop
	}
	return nil
}

// decode returns a sample's fields, nil if they are not wanted.
func (f *follower) decode(d *decoder, ev perfbuf.Event) fields {
	if d == nil || ev.Kind() != perfbuf.KindSample {
		return nil
	}
	b := ev.Bytes()
	if len(b) < d.size && !f.told {
		f.told = true
		f.note("%s has %d bytes, but there are events with %d (padding included): what is missing of these is left out", d.name, d.size, len(b))
	}
	return d.decode(b)
}

// plural is such as "1 event" or "2 events".
func plural(n uint64, what string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
