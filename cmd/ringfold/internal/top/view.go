package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
)

// view is what is seen of a frame: a window on its rows.
type view struct {
	width, height int
	source        string // the map's name
	byFullness    bool
	offset        int // rows scrolled away
}

// render draws the whole screen: height lines, none wider than width.
func (v view) render(f frame) string {
	rows, room := f.sorted(v.byFullness), v.room(f)
	first := v.clamp(f).offset
	last := min(first+room, len(rows))
	table := newTable(f, v.width)
	lines := append(v.head(f), table.head())
	for _, r := range rows[first:last] {
		lines = append(lines, table.row(r))
	}
	for len(lines) < v.height-1 {
		lines = append(lines, "")
	}
	by := "CPU"
	if v.byFullness {
		by = "fullness"
	}
	where := fmt.Sprintf("by %s, %d-%d of %d ", by, min(first+1, len(rows)), last, len(rows))
	if room == 0 {
		where = fmt.Sprintf("no room for %d rows ", len(rows))
	}
	lines = append(lines[:max(v.height-1, 0)], v.help(where))
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], v.width, "")
	}
	return strings.Join(lines, "\n")
}

// room is how many rows there is room for.
func (v view) room(f frame) int { return max(v.height-len(v.head(f))-2, 0) }

// clamp brings the offset back to where there are rows.
func (v view) clamp(f frame) view {
	v.offset = max(min(v.offset, len(f.Rings)-v.room(f)), 0)
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
	state := cyan.Render(string(f.Mode))
	if f.Paused {
		state = yellow.Bold(true).Render("PAUSED") + " · " + state
	}
	right := state + dim.Render(" · ") + clock(f.Elapsed) + " "
	left := " " + bold.Render("ringfold top") + "  " + dim.Render(cli.Printable(v.source))
	left = ansi.Truncate(left, max(v.width-ansi.StringWidth(right)-1, 0), "…")
	return left + pad(v.width-ansi.StringWidth(left)-ansi.StringWidth(right)) + right
}

// clock is such as 1:02:03.
func clock(seconds float64) string {
	s := int(seconds)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// warning is what the user has to know, empty as a rule.
func warning(f frame) string {
	switch {
	case f.Problem != "":
		return " " + cli.Printable(f.Problem)
	case f.Barrier != nil && f.Barrier.Stalled > 0 && f.Mode == source.Exact:
		stalled := time.Duration(f.Barrier.Stalled * float64(time.Second))
		return fmt.Sprintf(" the present barrier has been waiting for %v: some program, or some virtual CPU, does not get on", stalled.Round(1e8))
	case f.hotplug != nil:
		return " CPUs that come online: " + cli.Printable(f.hotplug.Error())
	case f.Corrupt > 0:
		return fmt.Sprintf(" %s stretches of memory were corrupt, and skipped", cli.Count(f.Corrupt))
	}
	return ""
}

// keys are the help line: longer ones first, of which the first that fits is shown.
var keys = []string{
	" p pause/resume  m mode  s sort  ↑↓ PgUp PgDn scroll  q quit",
	" p pause  m mode  s sort  ↑↓ scroll  q quit",
	" p m s ↑↓ q",
}

// help is the keys, if there is room, and where one is.
func (v view) help(where string) string {
	for _, k := range keys {
		if gap := v.width - ansi.StringWidth(k) - len(where); gap > 0 {
			return dim.Render(k + pad(gap) + where)
		}
	}
	return dim.Render(pad(v.width-len(where)) + where)
}
