package fleet

import (
	"context"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/connect"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
)

const tailUsage = `Usage: fleet tail [flags]

Prints the events of all hosts in the order of wall-clock time, and where events are missing. An event comes once all hosts that are
alive have sent what is older: a second after it happened, at most, where nothing is wrong. Ctrl-C ends it, with a summary.

What to read:

  -stream NAME   of JetStream (default EVENTS)
  -since T       from 10m ago, or 2026-01-02T15:04:05Z, on; by default from now on
  -all           all that the stream has, and go on
  -once          end when all that the stream has is read
  -host A,B      only these hosts
  -event A,B     only these events: fork, exec, exit. Gaps are always printed
  -comm A,B      only processes of these names
  -n N           end after N events
  -duration D    end after D, such as 30s

How to wait for hosts:

  -hosts A,B     wait for these from the start, others when they are first heard of
  -dead D        do not wait for a host of which nothing comes for so long (default 5s)
  -buffer N      hold back N events at most (default 1000000): those beyond are printed without waiting, and counted as forced

How to print:

  -json          one object per line; the last one is the summary. docs/fleet.md has the keys
  -version       print which ringfold and which libbpf this is

` + connect.Usage + `
For example:

  fleet tail -since 10m -host web-1,web-2 -event exec
  fleet tail -all -once -json | jq -r 'select(.event == "gap") | [.host, .reason, .missing] | @tsv'
`

// tailConfig is what the flags say.
type tailConfig struct {
	connect.Options
	read     tail.Options
	filter   filter
	json     bool
	n        uint64
	duration time.Duration
}

func (c *tailConfig) parse(args []string, out io.Writer) (done bool, err error) {
	f := flag.NewFlagSet("tail", flag.ContinueOnError)
	c.Options.Flags(f)
	f.StringVar(&c.read.Stream, "stream", "EVENTS", "")
	f.Func("since", "", func(s string) (err error) {
		c.read.Since, err = parseSince(s, time.Now())
		return err
	})
	f.BoolVar(&c.read.All, "all", false, "")
	f.BoolVar(&c.read.Once, "once", false, "")
	list(f, "host", &c.read.Only)
	list(f, "event", &c.filter.events)
	list(f, "comm", &c.filter.comms)
	f.Uint64Var(&c.n, "n", 0, "")
	f.DurationVar(&c.duration, "duration", 0, "")
	list(f, "hosts", &c.read.Hosts)
	f.DurationVar(&c.read.Dead, "dead", tail.DefaultDead, "")
	f.IntVar(&c.read.Buffer, "buffer", tail.DefaultBuffer, "")
	f.BoolVar(&c.json, "json", false, "")
	if done, err := parse(f, args, out, tailUsage); done || err != nil {
		return done, err
	}
	for _, name := range c.filter.events {
		if !slices.Contains(eventNames, name) {
			return false, wrong("-event %s: there are fork, exec and exit", name)
		}
	}
	switch {
	case c.read.All && !c.read.Since.IsZero():
		return false, wrong("-all and -since exclude each other")
	case c.read.Once && !c.read.All && c.read.Since.IsZero():
		return false, wrong("-once needs -all or -since: nothing that comes from now on has been stored already")
	case c.read.Dead <= 0 || c.read.Buffer <= 0 || c.duration < 0:
		return false, wrong("-dead and -buffer must be positive, -duration not negative")
	}
	if len(c.read.Only) > 0 && len(c.read.Hosts) == 0 {
		c.read.Hosts = c.read.Only
	}
	c.read.Settle = settle
	return false, nil
}

// settle is how long a tail listens who is alive before it prints: hosts on which nothing happens say so each second.
const settle = 1500 * time.Millisecond

// list makes a flag that has a list.
func list(f *flag.FlagSet, name string, to *[]string) {
	f.Func(name, "", func(s string) error {
		for one := range strings.SplitSeq(s, ",") {
			if one = strings.TrimSpace(one); one == "" {
				return errors.New("names, separated by commas")
			}
			*to = append(*to, one)
		}
		return nil
	})
}

func parseSince(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d < 0 {
			return time.Time{}, errors.New("10m is 10 minutes ago: without a sign")
		}
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, errors.New("a time ago, such as 10m, or a time, such as 2026-01-02T15:04:05Z")
	}
	return t, nil
}

func runTail(ctx context.Context, args []string, out io.Writer, note func(string)) error {
	var c tailConfig
	if done, err := c.parse(args, out); done || err != nil {
		return err
	}
	c.Note, c.read.Note = note, note
	nc, err := c.Connect("fleet tail")
	if err != nil {
		return err
	}
	defer nc.Close()
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	p := newPrinter(out, c)
	result, err := tail.Run(ctx, nc, c.read, p)
	if err != nil {
		return err
	}
	return p.end(result)
}
