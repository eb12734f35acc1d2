package top

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// total is a number of the header.
type total struct {
	label, value string
	style        lipgloss.Style
}

// totals are in groups of three: what comes, what has come, order, waking.
func totals(f frame) []total {
	s, t := f.stats, f.total
	barrier, none := "-", dim
	if f.mode == exact && s.Barrier.Count > 0 {
		barrier, none = fmt.Sprintf("%s / %s ms", cli.Milliseconds(s.Barrier.P50), cli.Milliseconds(s.Barrier.P99)), plainStyle
	}
	late := cli.Count(s.Late)
	if s.Late > 0 {
		late += fmt.Sprintf(", %s ms", cli.Milliseconds(s.MaxLateness))
	}
	doorbell := fmt.Sprintf("%d/%d armed", s.Doorbell.Armed, len(s.Rings))
	rings := fmt.Sprintf("%d × %s", len(s.Rings), strings.Replace(cli.Bytes(float64(t.Size)), ".0 ", " ", 1))
	switch {
	case t.Size == 0: // of a recording
		doorbell, rings = "-", "-"
	case s.Doorbell.Err != nil:
		doorbell = "none: polls"
	}
	return []total{
		{"events/s", cli.PerSecond(t.events), bold},
		{"bytes/s", cli.Bytes(t.bytes), plainStyle},
		{"lost/s", cli.PerSecond(t.lost), alarm(t.lost > 0)},
		{"delivered", cli.Count(t.Samples), plainStyle},
		{"lost", cli.Count(t.Lost), plainStyle},
		refusedTotal(f),
		{"barrier", barrier, none},
		{"late", late, alarm(f.mode == exact && s.Late > 0)},
		{"spilled", cli.Bytes(float64(s.SpilledBytes)), plainStyle},
		{"doorbell", doorbell, plainStyle},
		{"wakeups/s", cli.PerSecond(f.wakes), plainStyle},
		{"rings", rings, plainStyle},
	}
}

// refusedTotal is there if the programs count it: those of the load do.
func refusedTotal(f frame) total {
	if f.stats.Outputs.CPUs == nil {
		return total{"dropped", cli.Count(f.total.Dropped), plainStyle}
	}
	return total{"refused/s", cli.PerSecond(f.refused), plainStyle}
}

const (
	labelWidth = 11
	valueWidth = 14
	cellWidth  = 1 + labelWidth + valueWidth // at least: a third of 80 columns
	group      = 3
	groups     = 4
)

// grid lays the totals out: a group is a line, or, in a wide terminal, a column.
func grid(all []total, width int) (lines []string) {
	perLine := min(max(width/cellWidth, 1), groups)
	if perLine < group {
		all = all[:min(len(all), 4*perLine)] // the more important ones
	}
	cell := width / perLine
	for from := 0; from < len(all); from += perLine {
		line := ""
		for i := from; i < min(from+perLine, len(all)); i++ {
			t := all[i]
			if perLine == groups {
				t = all[i%perLine*group+i/perLine]
			}
			line += dim.Render(" "+t.label+pad(labelWidth-len(t.label))) + t.style.Render(right(t.value, valueWidth)) + pad(cell-cellWidth)
		}
		lines = append(lines, line)
	}
	return lines
}
