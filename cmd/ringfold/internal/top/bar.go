package top

import (
	"math"
	"strings"
)

// bar shows how full a ring is, with a tick where the fullest was.
func bar(r row, width int) string {
	if width == 0 || r.Size == 0 {
		return pad(width)
	}
	eighths := int(math.Round(r.fullness() * float64(8*width)))
	if r.Used > 0 {
		eighths = max(eighths, 1) // something is something
	}
	full := strings.Repeat("█", eighths/8)
	if part := eighths % 8; part > 0 {
		full += string([]rune("▏▎▍▌▋▊▉")[part-1])
	}
	filled := (eighths + 7) / 8
	tick := min(int(r.highest()*float64(width)), width-1)
	empty := func(n int) string { return dim.Render(strings.Repeat("·", n)) }
	full = level(r.fullness()).Render(full)
	if r.HighWater == 0 || tick < filled { // the tick would hide what is now
		return full + empty(width-filled)
	}
	return full + empty(tick-filled) + level(r.highest()).Render("│") + empty(width-tick-1)
}
