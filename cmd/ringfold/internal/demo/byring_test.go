package demo

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// reads has one look at two rings.
func reads(events ...event) excerpt {
	b := byRing{round: make([][]event, 2)}
	for i := range events {
		b.round[events[i].CPU] = append(b.round[events[i].CPU], events[i])
	}
	b.endRound()
	return b.best
}

func forkAt(time uint64, cpu int, pid, child uint32) event {
	return event{TimeNS: time, CPU: cpu, Event: "fork", Process: &Process{PID: pid, ChildPID: child}}
}

func eventAt(time uint64, cpu int, what string, pid uint32) event {
	return event{TimeNS: time, CPU: cpu, Event: what, Process: &Process{PID: pid}}
}

func wrongTimes(x excerpt) (times []uint64) {
	for _, r := range x.rows {
		if r.wrong {
			times = append(times, r.TimeNS)
		}
	}
	return times
}

func TestExcerpt(t *testing.T) {
	// An exec is preferred to an exit, and that to any other.
	x := reads(forkAt(10, 1, 1, 2), forkAt(20, 1, 1, 3), eventAt(30, 0, "exit", 2), eventAt(40, 0, "exec", 3))
	require.Equal(t, "an exec before its fork", x.wrong)
	require.Equal(t, []uint64{40, 20}, wrongTimes(x))
	require.Len(t, x.rows, 4)
	var inOrder []uint64
	for _, r := range x.inOrder() {
		inOrder = append(inOrder, r.TimeNS)
	}
	require.Equal(t, []uint64{10, 20, 30, 40}, inOrder)

	x = reads(forkAt(10, 1, 1, 2), eventAt(30, 0, "exit", 2))
	require.Equal(t, "an exit before its fork", x.wrong)

	x = reads(forkAt(10, 1, 1, 2), eventAt(30, 0, "exec", 7))
	require.Equal(t, "an event before an earlier one", x.wrong)

	// The fork of another process that had the number later.
	x = reads(eventAt(10, 0, "exit", 2), forkAt(20, 1, 1, 2))
	require.Empty(t, x.wrong)
	require.Empty(t, x.rows)

	// A thread's end is not the process's.
	end := eventAt(30, 0, "exit", 2)
	end.TID = 9
	require.Equal(t, "an event before an earlier one", reads(forkAt(10, 1, 1, 2), end).wrong)
}

func TestExcerptIsShort(t *testing.T) {
	for between := range 2 * rows {
		var events []event
		events = append(events, forkAt(1000, 1, 1, 2))
		for i := range 20 {
			events = append(events, eventAt(1100+uint64(i), 0, "exec", 100))
		}
		events = append(events, eventAt(1200, 0, "exec", 2))
		for i := range between {
			events = append(events, eventAt(1300+uint64(i), 0, "exec", 100))
		}
		x := reads(events...)
		require.Len(t, x.rows, rows)
		require.Len(t, wrongTimes(x), 2)
		require.Equal(t, between <= rows-2, slices.Equal(wrongTimes(x), []uint64{1200, 1000}), between)
	}
}
