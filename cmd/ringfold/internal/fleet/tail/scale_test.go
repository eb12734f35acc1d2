package tail

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The work for a message does not grow with the hosts, or with the batches that wait. The CPU time
// of this thread says so, whatever else the machine does: 8 times as many take some 8 times as
// long; with all of them looked at each time it would be 64 times.
func TestScale(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func(f func(many int), many int) int64 {
		var before, after unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &before))
		f(many)
		require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &after))
		return after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
	}
	for name, f := range map[string]func(many int){
		"hosts": func(many int) {
			m := newMerged(MergeOptions{})
			for i := range many {
				m.feed(float64(i)/float64(many), batch(fmt.Sprint("h", i), 1, 0.5, 0.1))
			}
			require.Equal(t, many, len(m.out()))
			m.feed(9) // all are silent, and come back
			for i := range many {
				m.feed(10+float64(i)/float64(many), batch(fmt.Sprint("h", i), 2, 12))
			}
			require.Equal(t, many, len(m.out()))
		},
		"missing batches": func(many int) {
			m := newMerged(MergeOptions{})
			for i := range many {
				m.Feed(batch("a", uint64(2*i+1), 1, 0.5), at(1))
				m.Advance(at(1))
			}
			m.Advance(at(10))
			require.Equal(t, 2*many, len(m.out()), "the events, the gaps between them, and the silence")
		},
		"pauses": func(many int) {
			m := newMerged(MergeOptions{})
			for i := range many {
				m.feed(1, batch(fmt.Sprint("h", i), 1, 0.5))
			}
			for i := range many {
				m.Resume(at(2 + float64(i)))
				m.feed(2+float64(i), batch("a", uint64(i+1), 2+float64(i)))
			}
			require.Empty(t, m.out())
		},
	} {
		const few, times = 1000, 8
		least := int64(1 << 62) // of the ratio, in percent: the collector may come in between
		for range 5 {
			least = min(least, 100*used(f, times*few)/max(used(f, few), 1))
		}
		require.Less(t, least, int64(100*3*times), name)
	}
}
