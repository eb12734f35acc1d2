package top

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// Calm colours of the terminal's own palette, so that they fit light and dark ones.
var (
	plainStyle = lipgloss.NewStyle()
	bold       = plainStyle.Bold(true)
	dim        = plainStyle.Foreground(lipgloss.BrightBlack)
	green      = plainStyle.Foreground(lipgloss.Green)
	yellow     = plainStyle.Foreground(lipgloss.Yellow)
	red        = plainStyle.Foreground(lipgloss.Red)
	cyan       = plainStyle.Foreground(lipgloss.Cyan)
)

// alarm is red if there is something to be alarmed about.
func alarm(is bool) lipgloss.Style {
	if is {
		return red
	}
	return plainStyle
}

// level is the colour of a ring so full.
func level(fullness float64) lipgloss.Style {
	switch {
	case fullness >= 0.8:
		return red
	case fullness >= 0.5:
		return yellow
	default:
		return green
	}
}

// column is a column of the table. Its cells are right-aligned.
type column struct {
	title string
	width int // with the gap to the column before it
	rank  int // narrow terminals leave out the columns of the highest ranks
	cell  func(row) (string, lipgloss.Style)
}

// columns are all but the bar, which comes after the first.
var columns = []column{
	{"CPU", 4, 0, func(r row) (string, lipgloss.Style) { return cpu(r.CPU), bold }},
	{"USE", 5, 2, func(r row) (string, lipgloss.Style) { return cli.Share(r.Used, r.Size), level(r.fullness()) }},
	{"HIGH", 6, 6, func(r row) (string, lipgloss.Style) { return cli.Share(r.HighWater, r.Size), dim }},
	{"EVENTS/S", 12, 1, func(r row) (string, lipgloss.Style) { return cli.PerSecond(r.EventsRate), plainStyle }},
	{"BYTES/S", 12, 4, func(r row) (string, lipgloss.Style) { return cli.Bytes(r.BytesRate), plainStyle }},
	{"LOST/S", 11, 3, func(r row) (string, lipgloss.Style) { return cli.PerSecond(r.LostRate), alarm(r.LostRate > 0) }},
	{"LOST", 14, 7, func(r row) (string, lipgloss.Style) { return cli.Count(r.Lost), dim }},
	{"BELL", 6, 8, func(r row) (string, lipgloss.Style) {
		if r.Armed {
			return "armed", dim
		}
		return "-", dim
	}},
	{"FIRST", 8, 5, func(r row) (string, lipgloss.Style) {
		if r.Last {
			return cli.Percent(r.First) + "◂", plainStyle
		}
		return cli.Percent(r.First) + " ", plainStyle
	}},
}

// cpu names a ring's CPU. A ring buffer may be of all.
func cpu(n int) string {
	if n < 0 {
		return "all"
	}
	return fmt.Sprint(n)
}

// table is the rings of a frame, in a width.
type table struct {
	columns []column
	bar     int  // its width: what the columns leave
	maps    bool // name them in a last column
	first   bool // there were choices
}

const (
	leastBar = 12 // cells
	mapWidth = 15 // at most
)

func newTable(f frame, width int) (t table) {
	t.first = f.Choices > 0
	names := 0
	for _, r := range f.Rings {
		names = max(names, min(len(r.Map), mapWidth))
	}
	if t.maps = names > 0; t.maps {
		width -= 1 + names
	}
	for ranks := len(columns); ; ranks-- {
		t.columns, t.bar = nil, width-1
		for _, c := range columns {
			if c.rank < ranks {
				t.columns = append(t.columns, c)
				t.bar -= c.width
			}
		}
		if t.bar >= leastBar || ranks == 1 {
			t.bar = max(t.bar, 0)
			return t
		}
	}
}

func (t table) head() string {
	var b strings.Builder
	for i, c := range t.columns {
		fmt.Fprintf(&b, "%*s", c.width, c.title)
		if i == 0 {
			fmt.Fprintf(&b, " %-*.*s", t.bar, t.bar, "RING")
		}
	}
	if t.maps {
		b.WriteString(" MAP")
	}
	return dim.Render(b.String())
}

func (t table) row(r row) string {
	var b strings.Builder
	for i, c := range t.columns {
		text, style := c.cell(r)
		if c.title == "FIRST" && !t.first {
			text, style = "- ", dim
		}
		b.WriteString(style.Render(right(text, c.width)))
		if i == 0 {
			b.WriteString(" " + bar(r, t.bar))
		}
	}
	if t.maps {
		b.WriteString(" " + ansi.Truncate(cli.Printable(r.Map), mapWidth, "…"))
	}
	return b.String()
}

func pad(n int) string { return strings.Repeat(" ", max(n, 0)) }

// right aligns at the right, and cuts off what does not fit.
func right(s string, width int) string {
	s = ansi.Truncate(s, width, "…")
	return pad(width-ansi.StringWidth(s)) + s
}
