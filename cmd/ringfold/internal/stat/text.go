package stat

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// print prints the counts of an interval, or of all.
func (c *config) print(out io.Writer, n *counts, all bool) error {
	switch {
	case c.Format == cli.JSON && all:
		return json.NewEncoder(out).Encode(map[string]*counts{"summary": n})
	case c.Format == cli.JSON:
		return json.NewEncoder(out).Encode(n)
	case c.Format == cli.Compact && all:
		return printLine(out, "# ", n)
	case c.Format == cli.Compact:
		return printLine(out, "", n)
	case !all:
		if _, err := fmt.Fprintf(out, "%.3f s\n", n.Elapsed); err != nil {
			return err
		}
	}
	return printTable(out, n)
}

func printTable(out io.Writer, c *counts) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "CPU\tEVENTS\tEVENTS/S\tBYTES\tLOST\t  MAP")
	line := func(cpu string, events, bytes, lost uint64, name string) {
		rate := 0.0
		if c.Interval > 0 {
			rate = float64(events) / c.Interval
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t  %s\n", cpu, cli.Count(events), cli.PerSecond(rate), cli.Bytes(float64(bytes)), cli.Count(lost), cli.Printable(name))
	}
	for _, m := range c.Maps {
		for _, one := range m.CPUs {
			cpu := fmt.Sprint(one.CPU)
			if one.CPU < 0 {
				cpu = "-"
			}
			line(cpu, one.Events, one.Bytes, one.Lost, m.name())
		}
	}
	line("all", c.Events, c.Bytes, c.Lost, "")
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(remarks(c), "\n"))
	return err
}

// remarks are what the table does not say.
func remarks(c *counts) (lines []string) {
	for _, m := range c.Maps {
		s := fmt.Sprintf("%s: %s wakeups, %s late", cli.Printable(m.name()), cli.Count(m.Wakeups), cli.Count(m.Late))
		if m.Late > 0 {
			s += fmt.Sprintf(" by up to %s ms", cli.Milliseconds(seconds(m.MaxLateness)))
		}
		lines = append(lines, s)
	}
	if d := c.Delay; d != nil {
		lines = append(lines, fmt.Sprintf("delay of events: p50 %s ms, p99 %s ms, max %s ms", cli.Milliseconds(seconds(d.P50)),
			cli.Milliseconds(seconds(d.P99)), cli.Milliseconds(seconds(d.Max))))
	}
	if c.Shed > 0 {
		lines = append(lines, cli.Count(c.Shed)+" events shed by programs")
	}
	if c.Filtered > 0 {
		lines = append(lines, cli.Count(c.Filtered)+" events filtered out")
	}
	if c.Command != nil {
		lines = append(lines, strings.Join(c.Command.Args, " ")+": "+c.Command.Status)
	}
	return append(lines, fmt.Sprintf("%.3f s, %s", c.Interval, c.Mode), "")
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

func printLine(out io.Writer, mark string, c *counts) error {
	late := uint64(0)
	for _, m := range c.Maps {
		late += m.Late
	}
	s := fmt.Sprintf("%s%.3f s %d events %d bytes %d lost %d late", mark, c.Elapsed, c.Events, c.Bytes, c.Lost, late)
	if c.Shed > 0 {
		s += fmt.Sprintf(" %d shed", c.Shed)
	}
	if c.Delay != nil {
		s += fmt.Sprintf(" delay %s/%s ms", cli.Milliseconds(seconds(c.Delay.P50)), cli.Milliseconds(seconds(c.Delay.P99)))
	}
	if c.Command != nil {
		s += ", command: " + c.Command.Status
	}
	_, err := fmt.Fprintln(out, s)
	return err
}
