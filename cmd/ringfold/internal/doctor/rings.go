package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// How long to wait for an event that has happened, and for the doorbell to ring: it does so in rings that were quiet.
const (
	patience = 20 * time.Second
	quiet    = time.Second
)

// rings opens rings, then attaches programs and reads an event: each step as far as the one before it worked.
func (r *Report) rings(ctx context.Context) {
	programs, loadErr := lifecycle.Load()
	if loadErr == nil {
		defer programs.Close()
	}
	reader, err := r.open(programs)
	if err != nil {
		if p := new(*perfbuf.PermissionError); errors.As(err, p) {
			r.failed(Bad, "rings", (*p).Err, (*p).Detail)
		} else {
			r.failed(Bad, "rings", err, ringsFix(err))
		}
		r.skipped("exact order", "doorbell")
	} else {
		defer reader.Close()
		o := reader.Options()
		r.ok("rings", "opened and mapped: %d of %d KiB", len(o.CPUs), o.RingBytes>>10)
	}
	var stream *perfbuf.Stream
	if reader != nil {
		stream = r.order(reader)
		defer stream.Close()
	}
	if loadErr != nil {
		r.failed(Bad, "programs", fmt.Errorf("a tracing program does not load: %w", loadErr), "")
		if reader != nil {
			r.skipped("doorbell")
		}
		r.skipped("events")
		return
	}
	if reader == nil {
		r.ok("programs", "a tracing program loads")
		r.skipped("events")
		return
	}
	if err := programs.Attach(); err != nil {
		r.failed(Bad, "programs", fmt.Errorf("a tracing program loads, but cannot be attached: %w", err), "")
		r.skipped("doorbell", "events")
		return
	}
	r.ok("programs", "a tracing program (fork, exec, exit) loads and attaches")
	r.events(ctx, reader, stream)
}

// open opens rings of the programs' map, or else of one of our own.
func (r *Report) open(programs *lifecycle.Probe) (*perfbuf.Reader, error) {
	if programs != nil {
		return programs.Open(perfbuf.Options{})
	}
	const perfEventArray = 4
	fd, err := libbpf.MapCreate(perfEventArray, "ringfold_doctor", 4, 4, 4096, 0)
	if err != nil {
		return nil, fmt.Errorf("no perf event array can be made: %w", err)
	}
	defer unix.Close(fd) // the reader duplicates it
	return perfbuf.Open(fd, perfbuf.Options{})
}

// ringsFix says what to do about rings that could not be opened, for errors that do not say it themselves.
func ringsFix(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission) && (host.InUserNamespace() || effective()&(1<<unix.CAP_BPF|1<<unix.CAP_SYS_ADMIN) == 0):
		return grant("CAP_BPF and CAP_PERFMON")
	case errors.Is(err, fs.ErrPermission):
		return "Something refuses it despite the capabilities, such as seccomp: allow bpf and perf_event_open there, see docs/permissions.md."
	case errors.Is(err, unix.EMFILE):
		return "Raise the limit on open files: ulimit -n, LimitNOFILE=."
	case errors.Is(err, fs.ErrNotExist):
		return "Mount sysfs on /sys."
	default:
		return "Please file an issue, with the output of ringfold doctor --json."
	}
}

func (r *Report) skipped(names ...string) {
	for _, name := range names {
		r.add(Warn, name, "not checked, because it needs what is bad above", "")
	}
}

// order says how exact order waits, and falls back on slack.
func (r *Report) order(reader *perfbuf.Reader) *perfbuf.Stream {
	stream, err := reader.Stream(perfbuf.StreamOptions{})
	if err != nil {
		r.failed(Bad, "exact order", err, "Slack order (--mode slack) works without.")
		stream, _ = reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Slack(time.Millisecond)})
		return stream
	}
	b := reader.Stats().Barrier
	r.Barriers = &Barrier{Provider: b.Provider, CostNS: int64(b.Cost)}
	found := "by " + b.Provider
	if b.Cost > 0 {
		found += fmt.Sprintf(": a grace period takes %v", round(b.Cost))
	}
	if b.Refused != nil {
		for line := range strings.Lines(b.Refused.Error()) {
			r.Barriers.Refused = append(r.Barriers.Refused, strings.TrimSpace(line))
		}
	}
	switch fast := b.Cost > 0 && b.Cost < time.Millisecond; {
	case fast:
		r.add(OK, "exact order", found, "")
	case effective()>>unix.CAP_SYS_ADMIN&1 == 0:
		r.add(Warn, "exact order", found+". Events come that much later", "With CAP_SYS_ADMIN it takes microseconds, by bind-mount.")
	default:
		r.add(Warn, "exact order", found+". Events come that much later", "")
	}
	r.Checks[len(r.Checks)-1].Notes = r.Barriers.Refused
	return stream
}

// events has something happen, and reads it.
func (r *Report) events(ctx context.Context, reader *perfbuf.Reader, stream *perfbuf.Stream) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	clock, clockErr := host.NewClock()
	read, delay, begin := 0, time.Duration(0), time.Now()
	for ctx.Err() == nil && (read == 0 || reader.Stats().Wakes == 0 && time.Since(begin) < quiet) {
		go fork(time.Millisecond) // once we wait, with luck
		err := stream.Run(ctx, func(ev perfbuf.Event) error {
			if read++; read == 1 {
				delay = time.Duration(clock.Now() - ev.Time())
			}
			return perfbuf.ErrStop
		})
		if err != nil && ctx.Err() == nil {
			r.failed(Bad, "events", err, "")
			r.doorbell(reader.Stats())
			return
		}
		time.Sleep(20 * time.Millisecond) // rings become quiet
	}
	stats := reader.Stats()
	r.doorbell(stats)
	switch {
	case read == 0:
		r.add(Bad, "events", fmt.Sprintf("a process was started, and no event of it came within %v", patience),
			"Please file an issue, with the output of ringfold doctor --json.")
	case clockErr != nil:
		r.ok("events", "an event came")
	default:
		r.ok("events", "an event came, %v after it had happened", round(delay))
	}
}

// fork starts a process, after a while. What it is to run is no program, but the kernel tells that to the child alone.
func fork(after time.Duration) {
	time.Sleep(after)
	_, _ = os.StartProcess("/", []string{"ringfold"}, &os.ProcAttr{})
}

func (r *Report) doorbell(stats perfbuf.Stats) {
	switch {
	case stats.Doorbell.Err != nil:
		r.failed(Warn, "doorbell", stats.Doorbell.Err, "Readers poll instead: see the poll interval.")
	case stats.Wakes == 0:
		r.ok("doorbell", "available, but no event rang it")
	default:
		r.ok("doorbell", "the kernel woke the reader")
	}
}

// round leaves three digits.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
