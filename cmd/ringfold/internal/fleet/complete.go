package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
)

// unknown lists why events may be missing of what was asked for. If there is nothing, none is
// missing of the hosts in the result, between the times that it has of each.
func unknown(r tail.Result, since time.Time) (why []string) {
	var holes uint64
	for reason, g := range r.Gaps {
		if tail.Missing(reason) {
			holes += g.Gaps
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.ByHost)) {
		h := r.ByHost[name]
		holes -= h.Gaps
		switch {
		case h.From.IsZero():
			why = append(why, name+": nothing has come of it")
			continue
		case !since.IsZero() && h.From.After(since):
			why = append(why, fmt.Sprintf("%s: unknown before %s", name, localTime(h.From)))
		}
		if h.Gaps > 0 {
			why = append(why, fmt.Sprintf("%s: gaps: %d", name, h.Gaps))
		}
		if h.Silent {
			why = append(why, fmt.Sprintf("%s: silent since %s", name, localTime(h.To)))
		}
	}
	if holes > 0 {
		why = append(why, fmt.Sprintf("gaps of unknown hosts: %d", holes))
	}
	if len(r.ByHost) == 0 {
		why = append(why, "no host has been heard of")
	}
	return why
}
