// Ringtop shows the rings of perf event arrays and BPF ring buffers at work: how full each is, what comes, what is lost, and how the
// reader gets on. It looks at a load of its own, or at any such maps on the system.
//
// session.go reads, in the mode that is chosen, and takes snapshots; frame.go computes what two of these tell. view.go, totals.go,
// table.go and bar.go draw it, for screen.go, which is all that knows of the terminal, and plain.go; json.go is for scripts.
// load.go and load.bpf.c make the load.
package top

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

const usage = `Usage: ringtop [flags]

Shows the ring of each CPU of a perf event array, and BPF ring buffers, live: how full each is, what comes, what is lost. In a
terminal; elsewhere it prints a table each second. Without -id, -name, -pin or -steal it looks at a load of its own. It needs
root, or CAP_BPF and CAP_PERFMON; CAP_SYS_ADMIN for other programs' maps.

The maps that are looked at:

` + bpfmaps.FlagsUsage + `  -list          list the perf event arrays and ring buffers of the system, and do nothing else

The load:

  -load N        events per second and CPU, on average (default 50000); 0 is none

How to read:

  -mode M        unordered (the default), slack or exact: the order of events, of all maps; a ring buffer takes time=OFFSET
  -slack D       how long events wait for older ones in slack mode (default 1ms)
  -ring-bytes N  size of each CPU's ring (default 262144; 65536 for the load)

How to show it:

  -interval D    time between two looks (default 1s)
  -plain         a table each interval, in a terminal too
  -json          a line of JSON each interval, and one at the end
  -duration D    end after D, such as 30s
  -version       print which ringfold and which libbpf this is, and do nothing else

Keys: p pauses and resumes outputs to the rings, m changes the mode, s sorts by CPU or by fullness; arrows, PgUp, PgDn, Home
and End scroll; q and Ctrl-C end it.

For example:

  ringtop -mode exact -load 100000
  ringtop -pin /sys/fs/bpf/tool/events
  ringtop -name events -steal
  ringtop -json -duration 10s | jq -c '[.events_per_second, .lost_per_second]'
`

// Run is the program. It returns its exit status.
func Run(args []string, stdout *os.File, stderr io.Writer) int {
	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "ringtop: %v (-h tells how to use it)\n", err)
		return 2
	case c.version:
		fmt.Fprintln(stdout, perfbuf.Version())
		return 0
	case c.list:
		if err := list(stdout); err != nil {
			fmt.Fprintf(stderr, "ringtop: %v\n", err)
			return 1
		}
		return 0
	}
	// With SIGPIPE caught, a write to a pipe that nobody reads any more (| head) fails instead of killing us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not caught, and ends the program at once
	if err := watch(ctx, c, stdout); err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintf(stderr, "ringtop: %v\n", err)
		return 1
	}
	return 0
}

// config is what the flags say.
type config struct {
	target    bpfmaps.Selectors
	load      int
	mode      mode
	slack     time.Duration
	ringBytes int
	interval  time.Duration
	plain     bool
	json      bool
	duration  time.Duration
	list      bool
	version   bool
}

// own says that the map is the load's.
func (c config) own() bool { return c.target.Maps == nil && !c.target.Steal }

func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("ringtop", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	c.target.Flags(f)
	f.IntVar(&c.load, "load", 50000, "")
	f.Var(&c.mode, "mode", "")
	f.DurationVar(&c.slack, "slack", time.Millisecond, "")
	f.IntVar(&c.ringBytes, "ring-bytes", 0, "")
	f.DurationVar(&c.interval, "interval", time.Second, "")
	f.BoolVar(&c.plain, "plain", false, "")
	f.BoolVar(&c.json, "json", false, "")
	f.DurationVar(&c.duration, "duration", 0, "")
	f.BoolVar(&c.list, "list", false, "")
	f.BoolVar(&c.version, "version", false, "")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	case c.interval < 10*time.Millisecond:
		return c, fmt.Errorf("-interval %v is too short: 10ms at least", c.interval)
	case c.load < 0 || c.slack < 0 || c.duration < 0 || c.ringBytes < 0:
		return c, errors.New("-load, -slack, -duration and -ring-bytes must not be negative")
	case c.plain && c.json:
		return c, errors.New("-plain and -json exclude each other")
	case given["load"] && !c.own():
		return c, errors.New("-load is for a map of its own: leave out -id, -name, -pin and -steal")
	}
	if c.own() && c.ringBytes == 0 {
		c.ringBytes = 64 << 10 // small enough to show something
	}
	return c, nil
}

// watch shows the maps' rings until ctx ends, or the user wants no more.
func watch(ctx context.Context, c config, stdout *os.File) error {
	src, err := openSource(c)
	if err != nil {
		return err
	}
	defer src.Close()
	s, err := openSession(src.names, src.open, perfbuf.Options{RingBytes: c.ringBytes}, c.mode, c.slack)
	if err != nil {
		return err
	}
	defer s.close()
	src.displaced(s.snapshot().stats.ReplacedEntries)

	healthy, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	shown := healthy
	if c.duration > 0 {
		var cancel context.CancelFunc
		shown, cancel = context.WithTimeout(healthy, c.duration)
		defer cancel()
	}
	reading, stop := context.WithCancel(context.Background()) // beyond the end of ctx: until there are no more outputs
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fail(s.run(reading))
	}()
	if err := src.start(c.load, fail); err != nil {
		return err
	}
	err = c.show(shown, s, src.name, stdout)
	src.end()
	if err == nil && ctx.Err() == nil && healthy.Err() != nil {
		err = context.Cause(healthy) // what reading, or the load, failed with
	}
	stop()
	<-ended
	last, failed := s.finish()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return c.printer(stdout, src.name).final(newFrame(s.began, snapshot{at: s.began}, last))
}

// show shows what s reads until ctx ends, or the user wants no more.
func (c config) show(ctx context.Context, s *session, source string, stdout *os.File) error {
	if !c.plain && !c.json && isTerminal(stdout) {
		return newScreen(s, source, c.interval).show(ctx)
	}
	out := c.printer(stdout, source)
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	for before := s.snapshot(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := s.snapshot()
		if err := out.frame(newFrame(s.began, before, now)); err != nil {
			return err
		}
		before = now
	}
}

func (c config) printer(out io.Writer, source string) printer {
	if c.json {
		return jsonLines{out}
	}
	return plainText{out, source}
}

// isTerminal says that f is a terminal that can do more than print lines.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("TERM") != "dumb"
}
