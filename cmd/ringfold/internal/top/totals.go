package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
)

// total is a number of the header.
type total struct {
	label, value string
	style        lipgloss.Style
}

// totals are all numbers of the header, the most important ones first.
func totals(f frame) []total {
	barrier := total{"barrier", "-", dim}
	if f.Mode == source.Exact && f.Barrier != nil && f.Barrier.Count > 0 {
		barrier = total{"barrier", milliseconds(f.Barrier.P50) + " / " + milliseconds(f.Barrier.P99) + " ms", plainStyle}
	}
	late := cli.Count(f.Late)
	if f.Late > 0 {
		late += ", " + milliseconds(f.MaxLateness) + " ms"
	}
	dropped := total{"dropped", cli.Count(f.Dropped), plainStyle}
	if f.Outputs != nil { // programs count them: those of the load do
		dropped = total{"refused/s", cli.PerSecond(f.refused), plainStyle}
	}
	doorbell := fmt.Sprintf("%d/%d armed", f.Doorbell.Armed, len(f.Rings))
	rings := fmt.Sprintf("%d × %s", len(f.Rings), strings.Replace(cli.Bytes(float64(f.total.Size)), ".0 ", " ", 1))
	switch {
	case f.total.Size == 0: // of a recording
		doorbell, rings = "-", "-"
	case f.Doorbell.Error != "":
		doorbell = "none: polls"
	}
	return []total{
		{"events/s", cli.PerSecond(f.EventsRate), bold},
		{"bytes/s", cli.Bytes(f.BytesRate), plainStyle},
		{"lost/s", cli.PerSecond(f.LostRate), alarm(f.LostRate > 0)},
		{"delivered", cli.Count(f.Delivered), plainStyle},
		{"lost", cli.Count(f.Lost), plainStyle},
		dropped,
		barrier,
		{"late", late, alarm(f.Mode == source.Exact && f.Late > 0)},
		{"spilled", cli.Bytes(float64(f.SpilledBytes)), plainStyle},
		{"doorbell", doorbell, plainStyle},
		{"wakeups/s", cli.PerSecond(f.wakes), plainStyle},
		{"rings", rings, plainStyle},
	}
}

func milliseconds(seconds float64) string {
	return cli.Milliseconds(time.Duration(seconds * float64(time.Second)))
}

const (
	labelWidth = 11
	valueWidth = 14
	cellWidth  = 1 + labelWidth + valueWidth // a third of 80 columns
)

// grid lays the totals out in four lines, in narrow terminals the first of them alone.
func grid(all []total, width int) (lines []string) {
	perLine := min(max(width/cellWidth, 1), 3)
	for i := range 4 {
		line := ""
		for _, t := range all[i*perLine : (i+1)*perLine] {
			line += dim.Render(fmt.Sprintf(" %-*s", labelWidth, t.label)) + t.style.Render(right(t.value, valueWidth)) + pad(width/perLine-cellWidth)
		}
		lines = append(lines, line)
	}
	return lines
}
