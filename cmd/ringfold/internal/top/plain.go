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
type printer struct {
	out    io.Writer
	format cli.Format
	source string
}

func (p printer) frame(f frame) (err error) {
	switch p.format {
	case cli.JSON:
		err = json.NewEncoder(p.out).Encode(f)
	case cli.Compact:
		t := f.total
		_, err = fmt.Fprintf(p.out, "%s %s %s events/s %s/s %s lost/s use %s high %s late %s\n", clock(f.Elapsed), f.Mode, cli.PerSecond(t.EventsRate),
			cli.Bytes(t.BytesRate), cli.PerSecond(t.LostRate), cli.Share(t.Used, t.Size), cli.Share(t.HighWater, t.Size), cli.Count(f.Late))
	default:
		_, err = fmt.Fprintf(p.out, "%s\n\n", p.table(f))
	}
	return err
}

func (p printer) final(f frame) (err error) {
	switch p.format {
	case cli.JSON:
		err = json.NewEncoder(p.out).Encode(map[string]frame{"summary": f})
	case cli.Compact:
		_, err = fmt.Fprintln(p.out, "# "+summary(f))
	default:
		_, err = fmt.Fprintln(p.out, summary(f))
	}
	return err
}

// table is what the screen shows, with all rows.
func (p printer) table(f frame) string {
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
	return strings.Join(lines, "\n")
}

// summary is the whole run in a line.
func summary(f frame) string {
	elapsed := time.Duration(f.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
	s := fmt.Sprintf("%s events delivered in %v, %s lost", cli.Count(f.Delivered), elapsed, cli.Count(f.Lost))
	if f.Shed > 0 {
		s += fmt.Sprintf(", %s shed", cli.Count(f.Shed))
	}
	if f.Dropped > 0 {
		s += fmt.Sprintf(", %s dropped", cli.Count(f.Dropped))
	}
	if f.Late > 0 {
		s += fmt.Sprintf(", %s late", cli.Count(f.Late))
	}
	return s
}
