package perfbuf

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A source none of whose first samples has a time that a monotonic clock shows has another clock's,
// or the offset is wrong. The stream says so, once, and goes on.
func TestForeignTimes(t *testing.T) {
	const now, realtime = 1 << 40, 1_700_000_000_000_000_000
	for name, c := range map[string]struct {
		first []uint64 // times of the first samples
		last  []uint64 // of those in a second pass
		fails int      // which pass fails
	}{
		"from the first pass on": {repeat(realtime, 16), nil, 1},
		"from the second on":     {repeat(realtime, 15), repeat(realtime, 1), 2},
		"few":                    {repeat(realtime, 15), nil, 0},
		"some are good":          {append(repeat(realtime, 40), now), repeat(realtime, 40), 0},
		"later":                  {[]uint64{now}, repeat(realtime, 40), 0},
		"all are good":           {repeat(now, 40), repeat(now, 40), 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 2, Options{NoTime: true})
			k.clock.Store(now)
			s := k.byPayload(StreamOptions{Order: Slack(0)})
			n := 0
			for pass, times := range [][]uint64{c.first, c.last} {
				for i, at := range times {
					k.outputAt(i%2, 1, at)
				}
				err := s.ForEach(func(Event) error { n++; return nil })
				if pass+1 != c.fails {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, "CLOCK_MONOTONIC")
				require.NoError(t, s.ForEach(func(Event) error { n++; return nil }), "it is said once")
			}
			require.Equal(t, len(c.first)+len(c.last), n, "nothing is lost")
		})
	}
}

// Payloads that are too short, which a program may well output now and then, have the kernel's
// time. Without it nothing has an order.
func TestShortPayloads(t *testing.T) {
	for _, o := range []Options{{}, {NoTime: true}} {
		k := newFake(t, 1, o)
		k.clock.Store(uint64(time.Second))
		s := k.byPayload(StreamOptions{Order: Slack(0)})
		for range 40 {
			require.NoError(t, k.w[0].Output(1, []byte{1, 2, 3, 4}))
		}
		if o.NoTime {
			require.ErrorContains(t, s.ForEach(func(Event) error { return nil }), "its first 40 samples are too short for a time")
		}
		require.Len(t, copies(t, s), 40)
	}
}

func repeat(time uint64, n int) (times []uint64) {
	for range n {
		times = append(times, time)
	}
	return times
}
