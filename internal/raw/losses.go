package raw

import "sync/atomic"

// Losses is the account of the outputs that a ring had no room for. The ring's reader keeps it and
// leaves it to the next one. Known may be loaded at any time.
//
// A record that reports losses comes with the first output that succeeds again. The kernel and
// programs also count them, so a loss may be known before its record comes.
type Losses struct {
	Known   atomic.Uint64 // from records, from the kernel's count, or from that of programs
	Advance uint64        // of these, those that no record has reported yet: the next is cut by them
	after   uint64        // no loss of the latest report is from before this time

	// Suspect says that a stream has found the ring rather full, and has not asked the kernel about
	// losses since.
	Suspect bool
}

// Report takes into account a record of n losses, whose time is given, and the time of the latest
// sample before it. It returns how many losses are news, and the time after which they happened.
func (l *Losses) Report(n, time, last uint64) (news, after uint64) {
	// An output that has looked for losses and not reported them can be interrupted by one that
	// does. That lies behind it with an earlier time, and its losses are from before both.
	if time > last {
		l.after = last
	}
	known := min(n, l.Advance)
	l.Advance -= known
	l.Known.Add(n - known)
	return n - known, l.after
}

// Unknown is how many of the losses that the kernel has counted in all are not known yet.
func (l *Losses) Unknown(total uint64) uint64 { return total - min(total, l.Known.Load()) }

// Learn takes into account n losses that a record is going to report.
func (l *Losses) Learn(n uint64) {
	l.Known.Add(n)
	l.Advance += n
}
