package source

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Flags say which events are read, and in what order. A command defines the groups that it has, in the
// order of the methods Which, What, Order and Types, and checks them with Args. Set a field before, for
// another default.
type Flags struct {
	Process string // comm or pid of a process that holds the maps
	Event   string // of the recordings; empty: all
	Steal   bool

	WallClock bool // order recordings by the time of day

	PID     int
	CPUs    []int // nil: all
	Filter  string
	Since   time.Duration
	Count   uint64 // samples, 0 for no limit
	Timeout time.Duration

	Mode     Mode // empty: exact, where there are times
	Slack    time.Duration
	RingSize cli.Size

	Type, BTF, BTFProg string

	// Speed of a recording's replay, as a multiple of the recorded pace; 0: as fast as it is read.
	Speed float64

	// Files are the recordings that the arguments name, Maps the maps; neither: the only map that programs use.
	Files   []string
	Fleet   *fleet.Address // where recordings of hosts come from, instead
	Maps    []bpfmaps.Selector
	Command []string // to run
	Writes  []string // files that the command will write; - is stdout

	// FlushEvery is that of the stream, whose markers go to Marked.
	FlushEvery time.Duration
	Marked     func(perfbuf.Event) error

	// Trigger is an expression like Filter, which Set.Triggers goes by.
	Trigger string

	filter, trigger filter

	cmd *cobra.Command
}

// Usage is a command's arguments, for cobra.Command.Use.
const Usage = MapsUsage + " [-- command]"

// MapsUsage is that of a command that runs none.
const MapsUsage = "[flags] [id N | name S | pinned PATH | FILE]... | nats://SERVER/STREAM"

// Which defines the flags that choose maps.
func (f *Flags) Which(fs *pflag.FlagSet) {
	cli.Group(fs, "Maps and recordings", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.Process, "process", f.Process, "the maps that the process with this `comm|pid` holds")
		f.Recording(fs)
		fs.BoolVar(&f.Steal, "steal", f.Steal, "take maps over from their readers, which receive nothing until they are restarted")
	})
}

// Recording defines the flags for recordings, for commands that read nothing else.
func (f *Flags) Recording(fs *pflag.FlagSet) {
	fs.StringVar(&f.Event, "event", f.Event, "only the event with this `name`, of recordings that have several")
	fs.BoolVar(&f.WallClock, "wall-clock", f.WallClock, "order recordings of several hosts or boots by their time of day")
}

// What defines the flags that choose events.
func (f *Flags) What(fs *pflag.FlagSet) {
	cli.Group(fs, "Events", func(fs *pflag.FlagSet) {
		fs.IntVarP(&f.PID, "pid", "p", f.PID, "only events with this `pid` in the field pid, or in tgid if there is no pid")
		fs.Func("cpus", "only these CPUs, such as `0-3,7`", func(list string) (err error) {
			if f.CPUs, err = cpulist.Parse(list); err != nil || len(f.CPUs) == 0 {
				return fmt.Errorf("%q is not a list of CPUs such as 0-3,7", list)
			}
			return nil
		})
		fs.StringVar(&f.Filter, "filter", f.Filter, "only events that match, such as `'pid == 12 && ret < 0'`")
		fs.DurationVar(&f.Since, "since", f.Since, "only the last `duration` of recordings")
		fs.Uint64VarP(&f.Count, "count", "n", f.Count, "end after `N` events")
		fs.DurationVar(&f.Timeout, "timeout", f.Timeout, "end after this `duration`, such as 5s")
	})
}

// Limits defines those of What that are about reading, not about single events.
func (f *Flags) Limits(fs *pflag.FlagSet) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.What(all)
	fs.AddFlag(all.Lookup("cpus"))
	fs.AddFlag(all.Lookup("timeout"))
}

// Order defines the flags that say how events are ordered.
func (f *Flags) Order(fs *pflag.FlagSet) {
	if f.RingSize == 0 {
		f.RingSize = 1 << 20
	}
	if f.Slack == 0 {
		f.Slack = time.Millisecond
	}
	cli.Group(fs, "Order", func(fs *pflag.FlagSet) {
		fs.Var(cli.Choice(&f.Mode, Exact, Slack, Unordered), "mode", "`exact|slack`: wait for proof that no older event can come (default), or a fixed time")
		fs.DurationVar(&f.Slack, "slack", f.Slack, "how long --mode slack waits; implies that mode")
		fs.Var(&f.RingSize, "ring-size", "`size` of each CPU's ring")
	})
}

// Types defines the flags that say what payloads are.
func (f *Flags) Types(fs *pflag.FlagSet) {
	cli.Group(fs, "Payloads", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.Type, "type", f.Type, "decode events as the struct or union with this `name` in BTF")
		fs.StringVar(&f.BTF, "btf", f.BTF, "look for the type in this `file`, a BPF object or raw BTF")
		fs.StringVar(&f.BTFProg, "btf-prog", f.BTFProg, "look for the type in the BTF of this `program`, an id or a name")
	})
}

// Args is a cobra.PositionalArgs: it takes the arguments that name maps, a recording, and a command behind
// "--", and checks the flags. Its errors are usage errors.
func (f *Flags) Args(cmd *cobra.Command, args []string) error {
	f.cmd = cmd
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		args, f.Command = args[:at], args[at:]
		if len(f.Command) == 0 {
			return cli.Usagef("a command to run is missing behind --")
		}
	}
	err := f.arguments(args)
	if err == nil {
		err = f.check(cmd.Flags().Changed)
	}
	if err != nil {
		return cli.Usagef("%w", err)
	}
	if f.filter, err = parseFilter(f.Filter); err != nil {
		return cli.Usagef("--filter %q: %w", f.Filter, err)
	}
	if f.trigger, err = parseFilter(f.Trigger); err != nil {
		return cli.Usagef("--trigger %q: %w", f.Trigger, err)
	}
	if cmd.Flags().Changed("pid") { // 0 is the idle task's
		f.filter = filter{parts: []filter{pidIs(f.PID), f.filter}}
	}
	return nil
}

// check looks for flags that contradict each other.
func (f *Flags) check(given func(string) bool) error {
	switch {
	case f.Slack < 0 || f.Timeout < 0 || f.Since < 0 || f.PID < 0:
		return errors.New("--slack, --timeout, --since and --pid must not be negative")
	case f.Mode == Exact && given("slack"):
		return errors.New("--slack is for --mode slack: exact mode does not guess")
	case f.recorded() && (f.Steal || f.Process != "" || f.BTFProg != ""):
		return errors.New("--steal, --process and --btf-prog are for maps, not for a recording")
	case f.Fleet != nil && f.WallClock:
		return errors.New("--wall-clock is for files: recordings of hosts are ordered so")
	case f.recorded() && len(f.Command) > 0:
		return errors.New("a recording has what happened already: a command to run is for maps")
	case !f.recorded() && (given("event") || f.WallClock):
		return errors.New("--event and --wall-clock are for recordings: name a file")
	case !f.recorded() && given("since"):
		return errors.New("--since is for a recording: of a map, only what is still to come can be read")
	case !f.Decodes() && (f.BTFProg != "" || f.BTF != ""):
		return errors.New("--btf and --btf-prog say where to look for a --type: name it")
	case f.BTFProg != "" && f.BTF != "":
		return errors.New("--btf and --btf-prog each say where to look for the type: give one of them")
	case given("pid") && !f.Decodes() && f.Fleet == nil:
		return errors.New("--pid compares a field of the event: give its struct by --type")
	}
	if given("slack") && f.Mode == "" {
		f.Mode = Slack
	}
	return nil
}

// Named reports whether the command line names maps or a recording.
func (f *Flags) Named() bool { return f.recorded() || len(f.Maps) > 0 || f.Process != "" }

func (f *Flags) recorded() bool { return len(f.Files) > 0 || f.Fleet != nil }

// Filters reports whether events are left out by what they have: with --filter or --pid.
func (f *Flags) Filters() bool { return f.filter.condition != nil || f.filter.parts != nil }

// Decodes reports whether events of some map are decoded.
func (f *Flags) Decodes() bool {
	for _, m := range f.Maps {
		if m.Fields.Type != "" {
			return true
		}
	}
	return f.Type != ""
}

// note prints a line to stderr.
func (f *Flags) note(format string, args ...any) {
	fmt.Fprintf(f.cmd.ErrOrStderr(), f.cmd.CommandPath()+": "+format+"\n", args...)
}

// Mode is how events are ordered.
type Mode string

// Modes.
const (
	Exact     Mode = "exact"
	Slack     Mode = "slack"
	Unordered Mode = "unordered" // ring by ring
)

// order is the mode as the library has it.
func (f *Flags) order() perfbuf.StreamOptions {
	o := perfbuf.StreamOptions{FlushEvery: f.FlushEvery}
	if f.Mode == Slack {
		o.Order = perfbuf.Slack(f.Slack)
	}
	return o
}
