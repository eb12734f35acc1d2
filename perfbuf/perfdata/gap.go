package perfdata

// Gap is a time in which events are missing, or may be, for another reason than a full ring. It is
// replayed as a [perfbuf.KindLost] with a [perfbuf.Event.Reason], of the recording's first event.
type Gap struct {
	Reason string // in a few words; not empty
	Count  uint64 // of missing events; 0: not known
	// After and Time are the times between which they are missing, in ns of the recording's clock.
	// If After is 0, it is not known since when.
	After, Time uint64
}

// mostReason is how much is kept of a reason.
const mostReason = 4096

// Append appends a record of the gap to those of a [Recorder], for a file or a [RoundWriter].
func (g Gap) Append(b []byte) []byte {
	e, n := g.entry(), len(b)
	b = append(b, make([]byte, e.lostSize(16))...)
	e.putLost(b[n:], typeLost, 16, 1)
	return b
}

// entry is the gap as a counted loss, on no CPU.
func (g Gap) entry() entry {
	why := g.Reason[:min(len(g.Reason), mostReason)]
	return entry{kind: lost, cpu: -1, time: g.Time, lost: g.Count, counted: true, after: min(g.After, g.Time), payload: []byte(why)}
}
