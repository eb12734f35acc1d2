package bpfmaps

import "fmt"

// BusyError says that a map may have a reader, which would be silenced.
//
// The kernel does not show the entries of a perf event array. What can be seen is who holds the map, and
// whether they have rings.
type BusyError struct{ Map }

// Readers are the others that have rings, of this map or of another.
func (e *BusyError) Readers() (readers Processes) {
	for _, p := range e.Others() {
		if p.Rings > 0 {
			readers = append(readers, p)
		}
	}
	return readers
}

func (e *BusyError) Error() string {
	why := fmt.Sprintf("may have a reader: %s.", e.Unseen)
	if readers := e.Readers(); len(readers) > 0 {
		why = fmt.Sprintf("seems to be read by %s, as that holds it and has rings.", readers)
	} else if others := e.Others(); len(others) > 0 {
		why = fmt.Sprintf("may have a reader: %s holds it, though without a ring that could be seen.", others)
	}
	more := "A CPU's entry of the map has room for one reader: with --steal events come here, and a present reader silently receives nothing, " +
		"even after this program has ended, until it is restarted."
	if e.RingBuf() {
		more = "A BPF ring buffer hands each event to one reader only: with --steal some events come here, and a present reader misses these."
	}
	return fmt.Sprintf("the map %s %s %s", e.Map, why, more)
}
