package engine

import (
	"sync/atomic"
	"time"
)

// doorbell decides whether each output wakes the reader. It does so while outputs are rare.
//
// Each ring has two perf events. The plain one wakes the reader when much has come since the last
// wakeup; the other, the doorbell, wakes it for each output. The map entry selects the event that
// programs output to (bpf_perf_event_output in kernel/trace/bpf_trace.c). Both events write to one
// ring (PERF_EVENT_IOC_SET_OUTPUT), but each wakes by its own settings (perf_output_sample in
// kernel/events/core.c). So arming is one map update.
//
//	armed     each output wakes the reader, which disarms the ring once that costs too much (budget)
//	disarmed  the reader polls the ring, and arms it after several looks in a row that find it quiet
//
// A look at the head after arming finds the outputs that came before it. A program that read the
// old entry may still write after that look, and rings no bell. So the reader looks again at
// growing intervals, for more than a second in all: any program writes within that time. After that
// nothing polls.
//
// Only one goroutine, the one that waits, may use it at a time.
type doorbell struct {
	entries  *Entries
	interval time.Duration
	rings    []quietness
	next     time.Time     // of the next look
	again    time.Duration // time to the next look when all are armed; 0: no more looks

	changed atomic.Bool // a ring has been disarmed since the deadline was chosen
}

// quietness records how long a ring has been quiet.
type quietness struct {
	head  uint64 // at the latest look
	looks int    // in a row that found head unchanged
}

const (
	QuietLooks = 2               // until a ring is armed
	LastLook   = 2 * time.Second // the longest time between two looks after arming
)

// newDoorbell makes a doorbell that looks at disarmed rings after each interval.
func newDoorbell(e *Entries, interval time.Duration) *doorbell {
	d := &doorbell{entries: e, interval: interval, rings: make([]quietness, len(e.armed)), again: interval, next: time.Unix(1, 0)}
	for i := range d.rings {
		d.rings[i].looks = QuietLooks // arm at the first look if the ring is empty
	}
	return d
}

// deadline returns when to look, zero for never.
func (d *doorbell) deadline() time.Time {
	d.changed.Store(false)
	armed := d.allArmed()
	switch {
	case d.again == 0 && armed:
		return time.Time{}
	case d.again != d.interval && !armed: // since a look that saw all armed: rings no bell
		d.returned()
	}
	return d.next
}

// due reports whether it is time to look.
func (d *doorbell) due() bool { return !time.Now().Before(d.next) }

// allArmed reports whether the first output to any ring wakes the reader. It may be called from
// anywhere.
func (d *doorbell) allArmed() bool {
	for i := range d.entries.reader.Rings.Len() {
		if !d.entries.Armed(i) {
			return false
		}
	}
	return true
}

// look arms the rings that have been quiet for long, and schedules the next look. unread returns a
// ring's number of unread bytes. It reports whether any ring has some.
func (d *doorbell) look(unread func(ring int) uint64) (found bool) {
	armed, rings := false, &d.entries.reader.Rings
	for i := range rings.Len() {
		q := &d.rings[i]
		now := rings.Head(i)
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
			found = found || unread(i) > 0 // came before the ring was armed
		}
	}
	switch {
	case armed || !d.allArmed():
		d.again = d.interval
	case d.again > 0:
		if d.again *= 4; d.again > LastLook {
			d.again = 0
		}
	}
	d.next = time.Now().Add(d.again)
	return found
}

// returned notes that a wait has ended with something to do. The next look comes after the poll
// interval, unless all outputs ring the bell anyway.
func (d *doorbell) returned() {
	if d.allArmed() {
		return
	}
	d.again = d.interval
	d.next = time.Now().Add(d.interval)
}
