package top

import (
	"fmt"

	"charm.land/lipgloss/v2"

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

// column is a column of the table. Its cells are right-aligned.
type column struct {
	title string
	width int // with the gap to the column before it
	rank  int // narrow terminals leave out the columns of the highest ranks
	cell  func(row) (string, lipgloss.Style)
}

// columns are those beside the bar, which comes after the first.
var columns = []column{
	{"CPU", 4, 0, func(r row) (string, lipgloss.Style) { return cpu(r.CPU), bold }},
	{"USE", 5, 2, func(r row) (string, lipgloss.Style) { return cli.Share(r.Used, r.Size), level(r.fullness()) }},
	{"HIGH", 6, 6, func(r row) (string, lipgloss.Style) { return cli.Share(r.HighWater, r.Size), dim }},
	{"EVENTS/S", 12, 1, func(r row) (string, lipgloss.Style) { return cli.PerSecond(r.events), plainStyle }},
	{"BYTES/S", 12, 4, func(r row) (string, lipgloss.Style) { return cli.Bytes(r.bytes), plainStyle }},
	{"LOST/S", 11, 3, func(r row) (string, lipgloss.Style) { return cli.PerSecond(r.lost), alarm(r.lost > 0) }},
	{"LOST", 14, 7, func(r row) (string, lipgloss.Style) { return cli.Count(r.Lost), dim }},
	{"BELL", 6, 8, func(r row) (string, lipgloss.Style) { return bell(r.Armed), dim }},
	{"FIRST", 8, 5, func(r row) (string, lipgloss.Style) {
		mark := " "
		if r.last {
			mark = pickMark
		}
		return cli.Percent(r.first) + mark, plainStyle
	}},
}

// cpu names a ring's CPU. A ring buffer may be of all.
func cpu(n int) string {
	if n < 0 {
		return "all"
	}
	return fmt.Sprint(n)
}

func bell(armed bool) string {
	if armed {
		return "armed"
	}
	return "-"
}

// pickMark is beside the ring that came first the latest time.
const pickMark = "◂"

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

const leastBar = 12 // cells

// fit returns the columns that there is room for, and how wide the bar is, which takes the rest.
func fit(width int) (fitting []column, bar int) {
	fitting = columns
	for {
		bar = width - 1
		worst := 0
		for i, c := range fitting {
			bar -= c.width
			if c.rank > fitting[worst].rank {
				worst = i
			}
		}
		if bar >= leastBar || len(fitting) == 1 {
			return fitting, max(bar, 0)
		}
		fitting = append(append([]column{}, fitting[:worst]...), fitting[worst+1:]...)
	}
}
