// Eventpipe prints the events of any perf event arrays and BPF ring buffers that are on the system, whoever has loaded them, in the order of time.
//
// The program is meant to be read. list.go lists the maps, open.go takes some over, file.go opens a recording or makes one, follow.go reads
// them, text.go, hexdump.go and json.go print, btf.go finds the type of the events, decode.go and value.go turn them into fields, and summary.go says what was read.
package tail

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/perfbuf"
)

// Run is the program. It returns its exit status.
func Run(args []string, stdout, stderr io.Writer) int {
	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "eventpipe: %v\n%s", err, usage)
		return 2
	case c.version:
		fmt.Fprintln(stdout, perfbuf.Version())
		return 0
	}

	// With SIGPIPE caught, a write to a pipe that nobody reads any more (| head) fails instead of killing us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not caught, and ends the program at once

	if c.list {
		err = list(stdout, c.json)
	} else {
		err = follow(ctx, c, stdout, func(format string, args ...any) { fmt.Fprintf(stderr, "eventpipe: "+format+"\n", args...) })
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintf(stderr, "eventpipe: %v\n", err)
		return 1
	}
	return 0
}

// config is what the flags say.
type config struct {
	which     bpfmaps.Selectors
	list      bool
	version   bool
	json      bool
	stats     bool
	wall      bool
	limit     uint64
	duration  time.Duration
	mode      string
	modeGiven bool
	slack     time.Duration // in slack mode
	ringBytes int
	typ       string // of events
	btfProg   string
	btfFile   string
	file      string // a recording to read, instead of maps
	eventName string // of the file's events
	record    string // file to write events to
}

// Values of config.mode.
const (
	exact = "exact"
	slack = "slack"

	unordered = "unordered" // of a ring buffer without times; not to be chosen
)

// order is the mode as the library has it.
func (c config) order() perfbuf.Mode {
	if c.mode == slack {
		return perfbuf.Slack(c.slack)
	}
	return perfbuf.Exact()
}

const usage = `Usage: eventpipe -list [-json]
       eventpipe [flags]

Prints the events of perf event arrays and BPF ring buffers that are on the system, whoever has loaded them, or those of a
recording, in the order of time. A ring buffer's events have a time if time=OFFSET says where; one without is read alone, as
its events lie in it. It needs root, or CAP_SYS_ADMIN, but not for recordings. Ctrl-C ends it, with a summary.

  -list          show all perf event arrays and ring buffers, who uses, holds and has pinned them; takes nothing over

Which maps:

` + bpfmaps.FlagsUsage + `
Or a recording:

  -file FILE     read this perf.data file, of -record, of a ringfold program, or of perf record -e bpf-output
  -event NAME    which of its events, if it has several
  -record FILE   write what is read to this perf.data file, too: for -file, and for perf script -i FILE

What of it:

  -duration D    end after D, such as 5s
  -n N           end after N events
  -mode M        exact (the default): print an event once it is proved that no older one is to come;
                 slack: print it after a fixed time, which is a guess
  -slack D       that time (default 1ms); selects -mode slack. An older event of another CPU that
                 comes later than that is printed all the same, marked as late
  -ring-bytes N  size of each CPU's ring (default 1048576)

How to show it:

  -json          print an array of JSON objects as "bpftool map event_pipe -j" does, in the order of time
  -wall          print the time of day; without, seconds since the first event
  -type NAME     show events as this struct (or union), which is looked for in the BTF of the programs that use the map;
                 of one map among several: type=NAME behind it, as in -name events,type=event.
                 In a recording it is found if -record was used with the same -type
  -btf-prog P    look for it in the BTF of this program, by id or name
  -btf FILE      look for it in this file: a BPF object, or BTF as /sys/kernel/btf/vmlinux has it
  -stats         print no events, only the summary
  -version       print which ringfold and which libbpf this is, and do nothing else

A CPU's entry of a perf event array has room for one reader. The reader that is there receives nothing from then on,
silently, even after this program has ended, until it is restarted (or takes the map back, as ringfold's may). That takes
-steal.

For example, to see which maps there are, and then what execsnoop's programs output, as the struct that it is:

  eventpipe -list
  eventpipe -id 123 -steal -type event
  eventpipe -id 123 -steal -duration 10s -json | jq -c '.[] | [.timestamp, .cpu]'

An array of events and a ring buffer whose structs begin with the time, as one stream:

  eventpipe -steal -name events,type=event -name rb,type=record,time=0

A recording, and what it has:

  eventpipe -id 123 -steal -type event -stats -record events.data
  eventpipe -file events.data -type event
`

// parse reads the command line.
func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("eventpipe", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints the error
	c.which.Flags(f)
	f.BoolVar(&c.list, "list", false, "")
	f.BoolVar(&c.version, "version", false, "")
	f.BoolVar(&c.json, "json", false, "")
	f.BoolVar(&c.stats, "stats", false, "")
	f.BoolVar(&c.wall, "wall", false, "")
	f.Uint64Var(&c.limit, "n", 0, "")
	f.DurationVar(&c.duration, "duration", 0, "")
	f.StringVar(&c.mode, "mode", "", "")
	f.DurationVar(&c.slack, "slack", time.Millisecond, "")
	f.IntVar(&c.ringBytes, "ring-bytes", 1<<20, "")
	f.StringVar(&c.typ, "type", "", "")
	f.StringVar(&c.btfProg, "btf-prog", "", "")
	f.StringVar(&c.btfFile, "btf", "", "")
	f.StringVar(&c.file, "file", "", "")
	f.StringVar(&c.eventName, "event", "", "")
	f.StringVar(&c.record, "record", "", "")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	case c.duration < 0 || c.slack < 0 || c.ringBytes < 0:
		return c, errors.New("-duration, -slack and -ring-bytes must not be negative")
	case given["mode"] && c.mode != exact && c.mode != slack:
		return c, fmt.Errorf("-mode is exact or slack, not %q", c.mode)
	case c.mode == exact && given["slack"]:
		return c, errors.New("-slack is for -mode slack: exact mode does not guess")
	case (given["file"] && c.file == "") || (given["record"] && c.record == ""):
		return c, errors.New("-file and -record take the name of a file")
	case c.file != "" && (c.list || c.which.Steal || len(c.which.Maps) > 0 || c.btfProg != ""):
		return c, errors.New("-file reads a recording: -list, -id, -name, -pin, -steal and -btf-prog are for maps")
	case c.file != "" && c.wall:
		return c, errors.New("-wall is for maps: the clock of a recording may be another machine's")
	case c.file == "" && c.eventName != "":
		return c, errors.New("-event says which event of a -file: name that")
	case c.list && c.record != "":
		return c, errors.New("-list reads no events that -record could write")
	case !c.decodes() && (c.btfProg != "" || c.btfFile != ""):
		return c, errors.New("-btf-prog and -btf say where to look for a -type: name it")
	case c.btfProg != "" && c.btfFile != "":
		return c, errors.New("-btf-prog and -btf each say where to look for the type: give one of them")
	}
	c.modeGiven = given["mode"] || given["slack"]
	if c.mode == "" {
		c.mode = exact
		if given["slack"] {
			c.mode = slack
		}
	}
	return c, nil
}

// decodes reports whether events of some map are to be decoded.
func (c config) decodes() bool {
	return c.typ != "" || slices.ContainsFunc(c.which.Maps, func(m bpfmaps.Selector) bool { return m.Fields.Type != "" })
}
