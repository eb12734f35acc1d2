package raw

import "sync/atomic"

// Losses counts the outputs that a ring had no room for. The ring's reader keeps it and leaves it
// to the next one. Known may be loaded at any time.
//
// The first successful output after a loss writes a record that reports it. The kernel and programs
// also count losses, so one may be known before its record.
type Losses struct {
	Known   atomic.Uint64 // from records, from the kernel's count, or from that of programs
	Advance uint64        // of these, not in a record yet: the next records count that many again
	after   uint64        // no loss of the latest report is from before this time

	// Suspect means that a stream has found the ring rather full, and has not asked the kernel
	// about losses since.
	Suspect bool
}

// Report handles a record of n losses with this time; last is the time of the latest sample before
// it. It returns how many losses are new, and the time after which they happened.
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

// Know counts what programs have counted, and returns true, unless it was shed and not lost.
func (l *Losses) Know(o *Odd) bool {
	if o.Kind == Lost {
		l.Known.Add(o.Lost)
	}
	return o.Kind == Lost
}

// Unknown returns how many losses of the kernel's total are not known yet.
func (l *Losses) Unknown(total uint64) uint64 { return total - min(total, l.Known.Load()) }

// Learn adds n losses that a later record will report.
func (l *Losses) Learn(n uint64) {
	l.Known.Add(n)
	l.Advance += n
}
