package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/internal/bpf"
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
	reader, err := open(programs)
	var stream *perfbuf.Stream
	if err != nil {
		r.failed(Bad, "rings", err, ringsFix(err))
		r.skipped("exact order")
	} else {
		defer reader.Close()
		o := reader.Options()
		r.add(OK, "rings", fmt.Sprintf("opened and mapped: %d of %d KiB", len(o.CPUs), o.RingBytes>>10), "")
		stream = r.order(reader)
		defer stream.Close()
	}
	attachErr := loadErr
	if loadErr == nil && reader != nil {
		attachErr = programs.Attach()
	}
	switch {
	case loadErr != nil:
		r.failed(Bad, "programs", fmt.Errorf("a tracing program does not load: %w", loadErr), "")
	case attachErr != nil:
		r.failed(Bad, "programs", fmt.Errorf("a tracing program loads, but cannot be attached: %w", attachErr), "")
	case reader == nil:
		r.add(OK, "programs", "a tracing program loads", "")
	default:
		r.add(OK, "programs", "a tracing program (fork, exec, exit) loads and attaches", "")
		r.events(ctx, reader, stream)
		return
	}
	r.skipped("doorbell", "events")
}

// open opens rings of the programs' map, or else of one of our own.
func open(programs *lifecycle.Probe) (*perfbuf.Reader, error) {
	if programs != nil {
		return programs.Open(perfbuf.Options{})
	}
	const perfEventArray = 4
	fd, err := bpf.MapCreate(perfEventArray, "ringfold_doctor", 4, 4, 4096, 0)
	if err != nil {
		return nil, fmt.Errorf("no perf event array can be made: %w", err)
	}
	defer unix.Close(fd) // the reader duplicates it
	return perfbuf.Open(fd, perfbuf.Options{})
}

// issue is the last resort.
const issue = "Please file an issue, with the output of ringfold doctor --json."

// ringsFix says what to do about rings that could not be opened. A perfbuf.PermissionError says it itself.
func ringsFix(err error) string {
	switch {
	case errors.As(err, new(*perfbuf.PermissionError)):
		return ""
	case errors.Is(err, fs.ErrPermission) && (host.InUserNamespace() || !has(unix.CAP_BPF) && !has(unix.CAP_SYS_ADMIN)):
		return grant("CAP_BPF and CAP_PERFMON")
	case errors.Is(err, fs.ErrPermission):
		return "Something refuses it despite the capabilities, such as seccomp: allow bpf and perf_event_open there, see docs/permissions.md."
	case errors.Is(err, unix.EMFILE):
		return "Raise the limit on open files: ulimit -n, LimitNOFILE=."
	case errors.Is(err, fs.ErrNotExist):
		return "Mount sysfs on /sys."
	}
	return issue
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
	found := "by " + b.Provider
	if b.Cost > 0 {
		found += fmt.Sprintf(": a grace period takes %v", cli.Round(b.Cost))
	}
	status, fix := OK, ""
	if b.Cost == 0 || b.Cost >= time.Millisecond {
		status, found = Warn, found+". Events come that much later"
		if !has(unix.CAP_SYS_ADMIN) {
			fix = "With CAP_SYS_ADMIN it takes microseconds, by bind-mount."
		}
	}
	r.add(status, "exact order", found, fix)
	if b.Refused != nil {
		r.Checks[len(r.Checks)-1].Notes = strings.Split(strings.TrimSpace(b.Refused.Error()), "\n")
	}
	return stream
}

// events starts processes, and reads an event of them.
func (r *Report) events(ctx context.Context, reader *perfbuf.Reader, stream *perfbuf.Stream) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	read, delay, begin := 0, time.Duration(0), time.Now()
	for ctx.Err() == nil && (read == 0 || reader.Stats().Wakes == 0 && time.Since(begin) < quiet) {
		go fork(time.Millisecond) // once we wait, with luck
		err := stream.Run(ctx, func(ev perfbuf.Event) error {
			if read++; read == 1 {
				delay = time.Duration(cli.Age(ev.Time()))
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
	if read == 0 {
		r.add(Bad, "events", fmt.Sprintf("a process was started, and no event of it came within %v", patience), issue)
		return
	}
	r.add(OK, "events", fmt.Sprintf("an event came, %v after it had happened", cli.Round(delay)), "")
}

// fork starts a process, after a while. It cannot run "/", but only the child learns that.
func fork(after time.Duration) {
	time.Sleep(after)
	_, _ = os.StartProcess("/", []string{"ringfold"}, &os.ProcAttr{})
}

func (r *Report) doorbell(stats perfbuf.Stats) {
	switch {
	case stats.Doorbell.Err != nil:
		r.failed(Warn, "doorbell", stats.Doorbell.Err, "Readers poll instead: see the poll interval.")
	case stats.Wakes == 0:
		r.add(OK, "doorbell", "available, but no event rang it", "")
	default:
		r.add(OK, "doorbell", "the kernel woke the reader", "")
	}
}
