package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// Rare events leave a ring armed, even several in a row. More of them disarm it, one by one or all
// at once.
func TestBudget(t *testing.T) {
	const event = 88
	for name, c := range map[string]struct {
		pause time.Duration
		bytes uint64
		armed int // reads that leave the ring armed, of 100
	}{
		"one each 2 ms":     {2 * time.Millisecond, event, 100},
		"one each ms":       {time.Millisecond, event, 100},
		"in a row":          {0, event, burst},
		"two each ms":       {time.Millisecond / 2, event, 2*burst - 1},
		"six each 10 ms":    {10 * time.Millisecond, 6 * event, 100},
		"a batch of many":   {time.Second, burst * bellBytes, 0},
		"more than anybody": {time.Second, 1 << 63, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, e := newFakeMap()
				require.True(t, e.Arm(0))
				armed := 0
				for ; armed < 100; armed++ {
					time.Sleep(c.pause)
					if e.flowed(0, c.bytes); !e.Armed(0) {
						break
					}
				}
				require.Equal(t, c.armed, armed)
				if armed < 100 {
					require.Equal(t, kernel.Plain, m.entries[0])
					require.Equal(t, 1, m.disarmed)
				}

				time.Sleep(burst * bellEvery)
				require.True(t, e.Arm(0))
				e.flowed(0, event)
				require.True(t, e.Armed(0), "the budget is whole again")
			})
		})
	}
}

// Bytes that wake nobody cost nothing.
func TestBudgetOfADisarmedRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := newFakeMap()
		for range 100 {
			e.flowed(0, 1<<20)
		}
		require.True(t, e.Arm(0))
		e.flowed(0, 8)
		require.True(t, e.Armed(0))
	})
}
