package top

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// view is what is seen of a frame: a window on its rows.
type view struct {
	width, height int
	source        string // whose map it is
	sort          sorting
	offset        int // rows scrolled away
}

// render draws the whole screen: height lines, none wider than width.
func (v view) render(f frame) string {
	head := v.head(f)
	rows := f.sorted(v.sort)
	room := v.room(f)
	first := v.clamp(f).offset
	lines := append(head, v.tableHead(f))
	for _, r := range rows[first:min(first+room, len(rows))] {
		lines = append(lines, v.row(f, r))
	}
	for len(lines) < v.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(v.height-1, 0)], v.help(first, room, len(rows)))
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], v.width, "")
	}
	return strings.Join(lines, "\n")
}

// room is how many rows there is room for.
func (v view) room(f frame) int { return max(v.height-len(v.head(f))-2, 0) }

// clamp brings the offset back to where there are rows.
func (v view) clamp(f frame) view {
	v.offset = max(min(v.offset, len(f.rows)-v.room(f)), 0)
	return v
}

// head is the title, the totals, and a line for what is wrong. It takes as many lines whatever they say, so that nothing jumps.
func (v view) head(f frame) []string {
	lines := []string{v.title(f)}
	if v.height >= 12 {
		lines = append(lines, "")
		lines = append(lines, grid(totals(f), v.width)...)
	}
	return append(lines, red.Render(warning(f)))
}

func (v view) title(f frame) string {
	state := cyan.Render(f.mode.String())
	if f.paused {
		state = yellow.Bold(true).Render("PAUSED") + " · " + state
	}
	right := state + dim.Render(" · ") + clock(f.elapsed) + " "
	left := " " + bold.Render("ringfold top") + "  " + dim.Render(cli.Printable(v.source))
	left = ansi.Truncate(left, max(v.width-ansi.StringWidth(right)-1, 0), "…")
	return left + pad(v.width-ansi.StringWidth(left)-ansi.StringWidth(right)) + right
}

// warning is what the user has to know, empty as a rule.
func warning(f frame) string {
	s := f.stats
	switch {
	case f.problem != "":
		return " " + cli.Printable(f.problem)
	case s.Barrier.Stalled > 0 && f.mode == exact:
		return fmt.Sprintf(" the present barrier has been waiting for %v: some program, or some virtual CPU, does not get on", s.Barrier.Stalled.Round(1e8))
	case s.Hotplug.Err != nil:
		return " CPUs that come online: " + cli.Printable(s.Hotplug.Err.Error())
	case f.total.Corrupt > 0:
		return fmt.Sprintf(" %s stretches of memory were corrupt, and skipped", cli.Count(f.total.Corrupt))
	}
	return ""
}

// names is how wide the column of maps is, with the gap before it: 0 if there is but one.
func (v view) names(f frame) (width int) {
	for _, r := range f.rows {
		if r.name != "" {
			width = max(width, min(len(r.name), 15)+1)
		}
	}
	return width
}

func (v view) tableHead(f frame) string {
	names := v.names(f)
	fitting, bar := fit(v.width - names)
	var b strings.Builder
	for i, c := range fitting {
		fmt.Fprintf(&b, "%*s", c.width, c.title)
		if i == 0 {
			fmt.Fprintf(&b, " %-*s", bar, "RING"[:min(bar, 4)])
		}
	}
	if names > 0 {
		b.WriteString(" MAP")
	}
	return dim.Render(b.String())
}

func (v view) row(f frame, r row) string {
	fitting, width := fit(v.width - v.names(f))
	var b strings.Builder
	for i, c := range fitting {
		text, style := c.cell(r)
		if c.title == "FIRST" && f.choices == 0 {
			text, style = "- ", dim
		}
		b.WriteString(style.Render(right(text, c.width)))
		if i == 0 {
			b.WriteString(" " + bar(r, width))
		}
	}
	if r.name != "" {
		b.WriteString(" " + ansi.Truncate(cli.Printable(r.name), 15, "…"))
	}
	return b.String()
}

// keys are the help line: longer ones first, of which that is taken which fits.
var keys = []string{
	" p pause/resume  m mode  s sort  ↑↓ PgUp PgDn scroll  q quit",
	" p pause  m mode  s sort  ↑↓ scroll  q quit",
	" p m s ↑↓ q",
	"",
}

func (v view) help(first, room, all int) string {
	where := fmt.Sprintf("by %v, %d-%d of %d ", v.sort, min(first+1, all), min(first+room, all), all)
	if room == 0 {
		where = fmt.Sprintf("no room for %d rows ", all)
	}
	for _, k := range keys {
		if gap := v.width - ansi.StringWidth(k) - len(where); gap > 0 || k == "" {
			return dim.Render(k + pad(gap) + where)
		}
	}
	return ""
}

func pad(n int) string { return strings.Repeat(" ", max(n, 0)) }

// right aligns at the right, and cuts off what does not fit.
func right(s string, width int) string {
	s = ansi.Truncate(s, width, "…")
	return pad(width-lipgloss.Width(s)) + s
}
