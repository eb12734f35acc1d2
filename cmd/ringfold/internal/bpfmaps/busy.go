package bpfmaps

import (
	"fmt"
	"strings"
)

// BusyError says that a map may have a reader, which would be silenced.
//
// The kernel does not tell: an entry of a perf event array cannot be looked at. What can be seen is who holds the map, and
// whether they have rings.
type BusyError struct {
	Map    Map
	Others []Process // that hold the map
}

// Readers are those that have rings, of this map or of another.
func (e *BusyError) Readers() (readers []Process) {
	for _, p := range e.Others {
		if p.Rings > 0 {
			readers = append(readers, p)
		}
	}
	return readers
}

func (e *BusyError) Error() string {
	var b strings.Builder
	readers := e.Readers()
	switch {
	case len(readers) > 0:
		fmt.Fprintf(&b, "the map %s seems to be read by %s, as that holds it and has rings.", e.Map, join(readers))
	case len(e.Others) > 0:
		fmt.Fprintf(&b, "the map %s may have a reader: %s holds it, though without a ring that could be seen.", e.Map, join(e.Others))
	default:
		fmt.Fprintf(&b, "the map %s may have a reader: %s.", e.Map, e.Map.Unseen)
	}
	if e.Map.RingBuf() {
		b.WriteString(" A BPF ring buffer hands each event to one reader only: with --steal some events come here, and a present reader misses these.")
		return b.String()
	}
	b.WriteString(" A CPU's entry of the map has room for one reader: with --steal events come here, and a present reader silently receives nothing, " +
		"even after this program has ended, until it is restarted.")
	return b.String()
}
