package source

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/perfbuf"
)

// Event is an event with what it was decoded to. Like a perfbuf.Event, it lives until the function that gets it returns; Fields are a copy.
type Event struct {
	perfbuf.Event
	From   *Source
	Fields Fields // of a sample, if its type is known; else nil
}

// Age is how long ago the event was, by the clock that its time is of, in ns. It is that of a map's
// event, or of a fleet's host.
func (ev Event) Age() uint64 {
	if ev.From.Live != nil {
		now := uint64(time.Now().UnixNano())
		return now - min(now, ev.Time())
	}
	return cli.Age(ev.Time())
}

// Stream is what is read: a perfbuf.Stream, or what a command has made of one.
type Stream interface {
	RunBatches(ctx context.Context, f func(*perfbuf.Batch) error) error
	Shutdown(ctx context.Context, f func(perfbuf.Event) error) error
}

// Run hands each event that matches to event, and calls flush after each pass over the rings, until ctx is done, there were --count
// of them, --timeout is over, the command has ended, or the recording. Then it takes the rings out of the maps, and hands over what they
// still held. It blocks all that time, and returns nil, or what failed: for a recording that was cut, an io.ErrUnexpectedEOF after all
// that is there. An ErrStop of event ends it, too. If another reader takes a map, that ends it with a perfbuf.ErrDisplaced, after all
// that came: not before the command has ended, if there is one.
func (set *Set) Run(ctx context.Context, in Stream, event func(Event) error, flush func() error) error {
	f := set.flags
	set.began = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if f.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.Timeout)
		defer cancel()
	}
	if len(f.Command) > 0 {
		child, err := startCommand(ctx, f.cmd, f.Command, cancel)
		if err != nil {
			return err
		}
		defer func() { cancel(); child.wait() }()
		set.Command = child
	}
	var watching sync.WaitGroup
	watching.Go(func() { set.watchPrograms(ctx) })
	defer func() { cancel(); watching.Wait() }()
	stopped := false
	each := func(ev perfbuf.Event) error {
		if len(f.Files) > 0 && ctx.Err() != nil { // of a map, and of a fleet, what the rings hold is still delivered
			stopped = true
			return perfbuf.ErrStop
		}
		if ev.Kind() == perfbuf.KindFlushed {
			return f.Marked(ev)
		}
		one, ok := set.take(ev)
		if !ok {
			return nil
		}
		err := event(one)
		if err == nil && f.Count > 0 && set.Samples >= f.Count {
			err = perfbuf.ErrStop
		}
		stopped = errors.Is(err, perfbuf.ErrStop)
		return err
	}
	read := func(b *perfbuf.Batch) error {
		if b.End() {
			return flush()
		}
		for ev := range b.Events() {
			if err := each(ev); err != nil {
				return err
			}
		}
		return nil
	}
	flushed := func(err error) error {
		if err != nil && !errors.Is(err, perfbuf.ErrDisplaced) {
			return err
		}
		return cmp.Or(flush(), err)
	}
	var taken error // by another reader
	for !stopped && (taken == nil || set.Command != nil) {
		err := in.RunBatches(ctx, read)
		if ctx.Err() != nil && err == context.Cause(ctx) {
			if err := flush(); err != nil {
				return err
			}
			break
		}
		switch err = flushed(err); {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, perfbuf.ErrDisplaced):
			if taken = set.DisplacedError(); set.Command != nil {
				f.note("%v. The command goes on", taken)
			}
		case err != nil:
			return err
		}
	}
	if set.Command != nil {
		cancel()
		set.Command.wait()
	}
	switch {
	case stopped || len(f.Files) > 0:
		return taken
	case set.hosts != nil:
		if err := set.hosts.end(read); !errors.Is(err, io.EOF) {
			return err
		}
		return flush()
	}
	// The programs are others' and go on. Shutdown takes the rings out of the maps, so that the rest has an end.
	// Not the context of before, which is done. Further signals end the program: see cli.Main.
	err := flushed(in.Shutdown(context.Background(), each))
	if errors.Is(err, perfbuf.ErrDisplaced) {
		return set.DisplacedError()
	}
	return errors.Join(taken, err)
}

// take decodes an event, and reports whether it matches.
func (set *Set) take(ev perfbuf.Event) (one Event, ok bool) {
	if set.First == 0 {
		set.First = ev.Time()
	}
	from := set.source(ev.Source())
	one = Event{ev, from, set.decode(from.Decoder, ev)}
	ok = set.flags.filter.match(one, set.First) && (set.flags.CPUs == nil || slices.Contains(set.flags.CPUs, ev.CPU()))
	if ok {
		set.latest = max(set.latest, ev.Time())
		if set.first == 0 {
			set.first = ev.Time()
		}
	}
	switch {
	case ev.Kind() != perfbuf.KindSample:
	case ok:
		set.Samples++
	default:
		set.Filtered++
	}
	return one, ok
}

// decode returns a sample's fields, nil if they are not wanted.
func (set *Set) decode(d *Decoder, ev perfbuf.Event) Fields {
	if d == nil || ev.Kind() != perfbuf.KindSample {
		return nil
	}
	b := ev.Bytes()
	if len(b) < d.Size && !set.told {
		set.told = true
		set.flags.note("%s has %d bytes, but there are events with %d (padding included): what is missing of these is left out", d.Name, d.Size, len(b))
	}
	return d.Decode(b)
}
