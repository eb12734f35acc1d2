package wake

import (
	"sync/atomic"
	"time"
)

// Doorbell decides when each output is to wake the reader: while they are rare.
//
// Each ring has two perf events: one that wakes the reader when much has come since the last
// wakeup, and one, the doorbell, of which each output does. Which of them a program outputs to is
// what the map says (bpf_perf_event_output in kernel/trace/bpf_trace.c); both write to one ring
// (PERF_EVENT_IOC_SET_OUTPUT), and the wakeup is the event's own matter (perf_output_sample in
// kernel/events/core.c). So arming is one map update.
//
//	armed     each output wakes the reader, which disarms the ring once that has cost too much: see budget
//	disarmed  the reader looks at the ring every poll interval; quiet for some looks in a row, it is armed
//
// An output that came before arming is seen by looking at the head after it. An output whose program
// had found the old entry, and writes only after that, rings no bell; it is found by looking again
// after ever longer times, for more than a second in all, in which any program gets from the one to the
// other. After that nothing polls.
//
// It is for whoever waits, one goroutine at a time.
type Doorbell struct {
	entries  *Entries
	interval time.Duration
	rings    []quietness
	next     time.Time     // of a look
	again    time.Duration // time to the next look when all are armed; 0: no more looks

	pause   bool        // all are armed, and the latest look has found nothing, as of the choice of the deadline
	rang    bool        // the reader has something to do since: see ring
	changed atomic.Bool // a ring has been disarmed since the deadline was chosen
}

// quietness is how long nothing has come from a CPU.
type quietness struct {
	head  uint64 // at the last look
	looks int    // that have found it unchanged
}

const (
	QuietLooks = 2               // until a ring is armed
	LastLook   = 2 * time.Second // the longest time between two looks after arming
)

// NewDoorbell makes one that looks at disarmed rings after each interval.
func NewDoorbell(e *Entries, interval time.Duration) *Doorbell {
	d := &Doorbell{entries: e, interval: interval, rings: make([]quietness, len(e.armed)), next: time.Unix(1, 0)}
	for i := range d.rings {
		d.rings[i].looks = QuietLooks // arm at once if nothing is there
	}
	return d
}

// deadline is when to look, zero for never.
func (d *Doorbell) deadline() time.Time {
	d.changed.Store(false)
	if d.rang {
		d.rang = false
		d.returned()
	}
	armed := d.AllArmed()
	d.pause = armed && d.again != d.interval
	switch {
	case d.again == 0 && armed:
		return time.Time{}
	case d.again > d.interval && !armed: // disarmed since the latest look, when all were armed: no bell tells of what comes
		d.returned()
	}
	return d.next
}

// due reports whether it is time to look.
func (d *Doorbell) due() bool { return !time.Now().Before(d.next) }

// AllArmed reports whether the first output to any ring wakes the reader. It may be called from anywhere.
func (d *Doorbell) AllArmed() bool {
	for i := range int(d.entries.count.Load()) {
		if !d.entries.Armed(i) {
			return false
		}
	}
	return true
}

// Idle reports whether nothing looks before a bell rings.
func (d *Doorbell) Idle() bool { return d.again == 0 && d.AllArmed() }

// Look arms the rings that have been quiet for long, and sets the time of the next look. Of a ring, head is how
// far it has got, and unread how many bytes are there to be read. It reports whether there are any.
func (d *Doorbell) Look(head, unread func(ring int) uint64) (found bool) {
	armed := false
	for i := range int(d.entries.count.Load()) {
		q := &d.rings[i]
		now := head(i)
		has := unread(i) > 0
		found = found || has
		switch {
		case now != q.head || has:
			*q = quietness{head: now}
		case d.entries.Armed(i):
		case q.looks < QuietLooks:
			q.looks++
		case d.entries.Err() == nil:
			armed = d.entries.Arm(i) || armed
			found = found || unread(i) > 0 // came before it was armed
		}
	}
	switch {
	case armed || !d.AllArmed():
		d.again = d.interval
	case d.again > 0:
		if d.again *= 4; d.again > LastLook {
			d.again = 0
		}
	}
	d.next = time.Now().Add(d.again)
	return found
}

// ring is returned after a pause. The clock is read later, by deadline: the reader gets to the event sooner.
func (d *Doorbell) ring() { d.again, d.rang = d.interval, true }

// returned notes that the reader has something to do, or had, and looks again after the poll interval.
func (d *Doorbell) returned() {
	d.again = d.interval
	d.next = time.Now().Add(d.interval)
}
