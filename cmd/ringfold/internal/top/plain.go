package top

import (
	"encoding/json"
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

// jsonLines prints an object for each frame, and the last one as {"summary":...}.
type jsonLines struct{ out io.Writer }

func (j jsonLines) frame(f frame) error { return json.NewEncoder(j.out).Encode(f) }
func (j jsonLines) final(f frame) error {
	return json.NewEncoder(j.out).Encode(map[string]frame{"summary": f})
}

// compact prints a line for each frame.
type compact struct{ out io.Writer }

func (c compact) frame(f frame) error {
	t := f.total
	_, err := fmt.Fprintf(c.out, "%s %s %s events/s %s/s %s lost/s use %s high %s late %s\n", clock(f.Elapsed), f.Mode, cli.PerSecond(t.EventsRate),
		cli.Bytes(t.BytesRate), cli.PerSecond(t.LostRate), cli.Share(t.Used, t.Size), cli.Share(t.HighWater, t.Size), cli.Count(f.Late))
	return err
}

func (c compact) final(f frame) error {
	_, err := fmt.Fprintln(c.out, "# "+summary(f))
	return err
}

// plainText prints a table for each frame.
type plainText struct {
	out    io.Writer
	source string
}

func (p plainText) frame(f frame) error {
	v := view{width: 100, source: p.source}
	lines := append([]string{v.title(f)}, grid(totals(f), v.width)...)
	if w := warning(f); w != "" {
		lines = append(lines, w)
	}
	table := newTable(f, v.width)
	lines = append(lines, table.head())
	for _, r := range f.Rings {
		lines = append(lines, table.row(r))
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
	elapsed := time.Duration(f.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
	s := fmt.Sprintf("%s events delivered in %v, %s lost", cli.Count(f.Delivered), elapsed, cli.Count(f.Lost))
	if f.Dropped > 0 {
		s += fmt.Sprintf(", %s dropped", cli.Count(f.Dropped))
	}
	if f.Late > 0 {
		s += fmt.Sprintf(", %s late", cli.Count(f.Late))
	}
	return s
}
