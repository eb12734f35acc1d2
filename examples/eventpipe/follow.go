package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ringfold/ringfold/internal/perfmaps"
	"github.com/ringfold/ringfold/perfbuf"
)

// printer turns events into bytes.
type printer interface {
	header(b []byte) []byte
	event(b []byte, ev perfbuf.Event, fields fields) []byte // fields is nil without -type
	summary(b []byte, s *summary) []byte
}

// follow prints events to w until ctx is done, or as long as the configuration says. It tells notices to note.
func follow(ctx context.Context, c config, w io.Writer, note func(format string, args ...any)) error {
	target, err := c.which.Open()
	if err != nil {
		return err
	}
	defer target.Close()
	f := &follower{limit: c.limit, quiet: c.stats, note: note, out: bufio.NewWriterSize(w, 64<<10), sum: newSummary(c, target.Map)}
	if c.json {
		f.printer = &jsonArray{}
	} else {
		f.printer = newText(c)
	}
	if c.typ != "" { // before anybody is silenced for nothing
		if f.decoder, err = newDecoder(c, target.Map); err != nil {
			return err
		}
	}

	r, err := perfbuf.Open(target.FD(), perfbuf.Options{RingBytes: c.ringBytes})
	if err != nil {
		return err
	}
	defer r.Close()
	s, err := r.Ordered(perfbuf.OrderOptions{Mode: c.order()})
	if err != nil {
		return err
	}
	defer s.Close()
	begin := time.Now()
	announce(note, target.Map, r.Stats().ReplacedEntries)
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
	if err := f.follow(ctx, s); err != nil {
		return err
	}
	if !f.full() {
		// The programs are others' and go on. Shutdown takes the rings out of the map, so that the rest has an end.
		// Not the context of before, which is done. A second Ctrl-C ends the program.
		if err := f.round(func(event func(perfbuf.Event) error) error { return s.Shutdown(context.Background(), event) }); err != nil {
			return err
		}
	}
	s.Close()
	r.Close()
	<-r.Done() // makes the counts final
	f.sum.finish(time.Since(begin), r.Stats())
	f.out.Write(f.printer.summary(nil, f.sum))
	return f.out.Flush()
}

// announce tells what is read, and who is silenced by that.
func announce(note func(string, ...any), m perfmaps.Map, displaced int) {
	var others []string
	for _, p := range m.Others() {
		others = append(others, p.String())
	}
	note("reading the map %s", m)
	if len(m.Programs) == 0 {
		note("no program that could be seen uses it: nothing may come")
	}
	switch who := strings.Join(others, ", "); {
	case displaced > 0 && who != "":
		note("taken over: %s held it, and its reader receives nothing until it is restarted or takes the map back", who)
	case displaced > 0:
		note("taken over: its previous reader receives nothing until it is restarted or takes the map back (or it has ended: the map may keep its entries)")
	case who != "":
		note("%s held it, and had no ring in it: nobody is silenced", who)
	}
}

// follower prints a stream, round by round.
type follower struct {
	limit   uint64 // samples to print, 0 for no limit
	quiet   bool   // print no events
	printer printer
	decoder *decoder // nil without -type
	note    func(format string, args ...any)
	out     *bufio.Writer
	line    []byte
	sum     *summary
	told    bool // that events are shorter than their type
}

func (f *follower) full() bool { return f.limit > 0 && f.sum.Events >= f.limit }

// follow reads until ctx is done or there were enough events.
//
// s.Run(ctx, f.event) would do the same in one call. The loop is here because it knows where a round ends: then the output
// is flushed.
func (f *follower) follow(ctx context.Context, s *perfbuf.Ordered) error {
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
	return f.out.Flush()
}

func (f *follower) event(ev perfbuf.Event) error {
	f.sum.add(ev)
	if !f.quiet {
		f.line = f.printer.event(f.line[:0], ev, f.decode(ev))
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
func (f *follower) decode(ev perfbuf.Event) fields {
	if f.decoder == nil || ev.Kind() != perfbuf.KindSample {
		return nil
	}
	b := ev.Bytes()
	if len(b) < f.decoder.size && !f.told {
		f.told = true
		f.note("%s has %d bytes, but there are events with %d (padding included): what is missing of these is left out", f.decoder.name, f.decoder.size, len(b))
	}
	return f.decoder.decode(b)
}

// plural is such as "1 event" or "2 events".
func plural(n uint64, what string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
