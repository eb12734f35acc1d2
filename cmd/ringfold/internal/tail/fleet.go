package tail

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
)

// appendFleet says what is known of a fleet's hosts.
func (t *text) appendFleet(b []byte, r *fleet.Result) []byte {
	const layout = "2006-01-02 15:04:05.000"
	b = fmt.Appendf(b, "\n%-*s %10s %8s %6s  %-*s  TO\n", max(t.from, 8), "HOST", "EVENTS", "LOST", "GAPS", len(layout), "KNOWN FROM")
	for _, name := range slices.Sorted(maps.Keys(r.Hosts)) {
		h, from, to := r.Hosts[name], "-", "-"
		if !h.From.IsZero() {
			from, to = h.From.In(t.zone).Format(layout), h.To.In(t.zone).Format(layout)
		}
		b = fmt.Appendf(b, "%-*s %10d %8d %6d  %-*s  %s\n", max(t.from, 8), cli.Printable(name), h.Events, h.Lost, h.Gaps, len(layout), from, to)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Gaps)) {
		b = fmt.Appendf(b, "Gaps: %s %d\n", reason, r.Gaps[reason])
	}
	if r.Duplicates+r.Malformed > 0 {
		b = fmt.Appendf(b, "Messages that came twice: %d; that could not be read: %d\n", r.Duplicates, r.Malformed)
	}
	if len(r.Unknown) == 0 {
		return append(b, "Complete: no event of these hosts is missing between these times. Before, after, and on other hosts: unknown\n"...)
	}
	b = append(b, "Not known to be complete:\n"...)
	for _, why := range r.Unknown {
		b = append(append(append(b, "  "...), cli.Printable(why)...), '\n')
	}
	return b
}
