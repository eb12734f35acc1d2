package trace

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"golang.org/x/sys/unix"
)

//go:embed trace2perfetto.bpf.o
var object []byte

// patience is far more than programs that were running when they were detached take to end.
const patience = 30 * time.Second

// record writes a trace of what happens until ctx is done, or as long as c says.
func record(ctx context.Context, c config, w io.Writer) (sum summary, err error) {
	module, err := load()
	if err != nil {
		return sum, err
	}
	defer module.Close()
	events, err := module.GetMap("events")
	if err != nil {
		return sum, err
	}
	// If each event woke us, each wake-up would be an event, and so on.
	r, err := perfbuf.Open(events.FileDescriptor(), perfbuf.Options{RingBytes: c.ringBytes,
		Wakeup: perfbuf.Wakeup{Bytes: c.ringBytes / 8, PollInterval: 20 * time.Millisecond}})
	if err != nil {
		return sum, err
	}
	defer r.Close()
	s, err := r.Ordered(perfbuf.OrderOptions{})
	if err != nil {
		return sum, err
	}
	defer s.Close()

	var rec *perfdata.Recorder
	if c.record != "" {
		if rec, err = perfdata.Create(c.record, perfdata.Options{Events: []perfdata.EventInfo{{Name: "trace2perfetto"}}}); err != nil {
			return sum, err
		}
		defer func() { err = errors.Join(err, rec.Close()) }()
	}

	cpus := r.Options().CPUs
	sum = summary{File: c.output, CPUs: len(cpus)}
	if err := module.AttachPrograms(); err != nil {
		return sum, bpfload.Explain(err)
	}
	// Programs are attached, and detached, one after the other. What comes while some are not would not fit together.
	start := now()
	t := newTrace(w)
	l, err := newTimeline(t, start, cpus, &sum)
	if err != nil {
		return sum, err
	}
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	handle := func(ev perfbuf.Event) error {
		if rec != nil && l.within(ev.Time()) {
			if err := rec.Record(ev); err != nil {
				return err
			}
		}
		return handle(l, ev)
	}
	if err := follow(ctx, r, s, l, handle); err != nil {
		return sum, err
	}
	end := now()
	l.end = end
	if err := module.DetachPrograms(); err != nil {
		return sum, err
	}
	// Not the context of before, which is done. A second Ctrl-C ends this too.
	rest, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("programs still run %v after they were detached", patience))
	defer cancel()
	if err := s.Drain(rest, handle); err != nil {
		return sum, err
	}
	if err := l.counters(now(), r.Stats().Rings); err != nil {
		return sum, err
	}
	if err := l.finish(end); err != nil {
		return sum, err
	}
	total := r.Stats().Total()
	sum.Seconds, sum.HighWater = float64(end-start)/1e9, float64(total.HighWater)/float64(total.Size)
	return sum, t.close(map[string]any{"tool": "trace2perfetto", "version": perfbuf.Version().String(), "summary": sum})
}

// follow reads until ctx is done.
func follow(ctx context.Context, r *perfbuf.Reader, s *perfbuf.Ordered, l *timeline, handle func(perfbuf.Event) error) error {
	const beat = 10 * time.Millisecond // between samples of counters: more would make the file large
	var latest uint64
	for {
		if err := s.Wait(ctx); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		sample := now()-latest >= uint64(beat)
		if sample { // before and after: what had gathered, and what was left
			if err := l.counters(now(), r.Stats().Rings); err != nil {
				return err
			}
		}
		if err := s.ForEach(handle); err != nil {
			return err
		}
		if sample {
			latest = now()
			if err := l.counters(latest, r.Stats().Rings); err != nil {
				return err
			}
		}
	}
}

// load loads the programs.
func load() (*libbpfgo.Module, error) {
	bpfload.Listen()
	module, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "trace2perfetto", SkipMemlockBump: true})
	if err != nil {
		return nil, bpfload.Explain(err)
	}
	if err := module.BPFLoadObject(); err != nil {
		module.Close()
		return nil, bpfload.Explain(err)
	}
	return module, nil
}

// now is the clock of events' times, in ns.
func now() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // it exists everywhere
	}
	return uint64(t.Nano())
}
