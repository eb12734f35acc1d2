package top

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// printer prints frames, and the last one, which comes after the end.
type printer interface {
	frame(frame) error
	final(frame) error
}

// plainText prints a table for each frame.
type plainText struct {
	out    io.Writer
	source string
}

// compact prints a line for each frame.
type compact struct{ out io.Writer }

func (c compact) frame(f frame) error {
	t := f.total
	_, err := fmt.Fprintf(c.out, "%s %v %s events/s %s/s %s lost/s use %s high %s late %s\n", clock(f.elapsed), f.mode, cli.PerSecond(t.events),
		cli.Bytes(t.bytes), cli.PerSecond(t.lost), cli.Share(t.Used, t.Size), cli.Share(t.HighWater, t.Size), cli.Count(f.stats.Late))
	return err
}

func (c compact) final(f frame) error {
	_, err := fmt.Fprintln(c.out, "# "+summary(f))
	return err
}

const plainWidth = 100

func (p plainText) frame(f frame) error {
	v := view{width: plainWidth, source: p.source}
	lines := append([]string{v.title(f)}, grid(totals(f), v.width)...)
	if w := warning(f); w != "" {
		lines = append(lines, w)
	}
	lines = append(lines, v.tableHead(f))
	for _, r := range f.rows {
		lines = append(lines, v.row(f, r))
	}
	for i := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(lines[i]), " ")
	}
	_, err := fmt.Fprintf(p.out, "%s\n\n", strings.Join(lines, "\n"))
	return err
}

func (p plainText) final(f frame) error {
	_, err := fmt.Fprintln(p.out, summary(f))
	return err
}

// summary is the whole run in a line.
func summary(f frame) string {
	s := fmt.Sprintf("%s events delivered in %v, %s lost", cli.Count(f.total.Samples), f.elapsed.Round(100*time.Millisecond), cli.Count(f.total.Lost))
	if f.total.Dropped > 0 {
		s += fmt.Sprintf(", %s dropped", cli.Count(f.total.Dropped))
	}
	if f.stats.Late > 0 {
		s += fmt.Sprintf(", %s late", cli.Count(f.stats.Late))
	}
	return s
}
