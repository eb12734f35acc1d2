package tail

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// clock shows times of CLOCK_MONOTONIC, or of the wall's clock, as those of hosts' recordings are.
type clock struct {
	set  *source.Set    // whose first event is second 0
	zone *time.Location // of the time of day; nil: times are from the first event on
	add  int64          // what is added to a time to have that of day, in ns
}

func newClock(c *config, set *source.Set) clock {
	k := clock{set: set}
	switch {
	case c.Fleet != nil && !c.utc:
		k.zone = time.Local
	case c.utc:
		k.zone = time.UTC
	}
	if c.utc && c.Fleet == nil { // If the time of day is set meanwhile, events do not follow.
		k.add = time.Now().UnixNano() - int64(perfbuf.Now())
	}
	return k
}

// appendTime appends seconds or a time of day, a dash if there is none. A late event may be older than the first one.
func (k clock) appendTime(b []byte, ns uint64) []byte {
	if ns == 0 { // of a ring buffer
		return append(b, '-')
	}
	if k.zone != nil {
		return k.day(ns).AppendFormat(b, "15:04:05.000000")
	}
	d, sign := int64(ns-k.set.First), ""
	if d < 0 {
		d, sign = -d, "-"
	}
	return fmt.Appendf(b, "%s%d.%09d", sign, d/1e9, d%1e9)
}

func (k clock) day(ns uint64) time.Time { return time.Unix(0, int64(ns)+k.add).In(k.zone) }

// title is that of the column.
func (k clock) title() string {
	if k.zone == time.UTC {
		return "UTC"
	}
	return "TIME"
}
