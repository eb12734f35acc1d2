package tail

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// clock shows times of CLOCK_MONOTONIC.
type clock struct {
	set *source.Set // whose first event is second 0
	utc int64       // what is added to a time to have that of day, in ns; 0: times are from the first event on
}

func newClock(c *config, set *source.Set) clock {
	k := clock{set: set}
	if c.utc { // If the time of day is set meanwhile, events do not follow.
		k.utc = time.Now().UnixNano() - int64(perfbuf.Now())
	}
	return k
}

// appendTime appends seconds or a time of day, a dash if there is none. A late event may be older than the first one.
func (k clock) appendTime(b []byte, ns uint64) []byte {
	if ns == 0 { // of a ring buffer
		return append(b, '-')
	}
	if k.utc != 0 {
		return k.day(ns).AppendFormat(b, "15:04:05.000000")
	}
	d, sign := int64(ns-k.set.First), ""
	if d < 0 {
		d, sign = -d, "-"
	}
	return fmt.Appendf(b, "%s%d.%09d", sign, d/1e9, d%1e9)
}

func (k clock) day(ns uint64) time.Time { return time.Unix(0, int64(ns)+k.utc).UTC() }

// title is that of the column.
func (k clock) title() string {
	if k.utc != 0 {
		return "UTC"
	}
	return "TIME"
}
