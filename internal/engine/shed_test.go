package engine

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// laned is a map of so many lanes, with those that are shed.
type laned struct{ lanes, below int }

func (l *laned) Lanes() int { return l.lanes }

func (l *laned) Shed(below int) bool {
	l.below = below
	return below <= l.lanes
}

// Late passes shed a lane more, and passes that are not late a lane less, 100 ms apart. The last
// lane of each map is never shed. Without passes, shedding ends as well.
func TestShedder(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &shedder{limit: 50 * time.Millisecond, now: func() time.Time { return now }}
	three, two, none := &laned{lanes: 3}, &laned{lanes: 2}, &laned{}
	var sources []*source
	for _, l := range []*laned{three, two, none} {
		sources = append(sources, &source{reader: &Reader{Parts: kernel.Parts{Shedder: l}}})
	}
	sources = append(sources, &source{reader: &Reader{}})
	latest, below := uint64(0), [2]int{}
	pass := func(delay time.Duration, want ...int) {
		t.Helper()
		latest++
		s.passed(latest, latest+uint64(delay), sources)
		s.mu.Lock() // the timer may be about to look
		below = [2]int{three.below, two.below}
		s.mu.Unlock()
		require.Equal(t, [2]int{want[0], want[1]}, below)
		require.Zero(t, none.below)
	}
	later := func(d time.Duration) {
		s.mu.Lock()
		now = now.Add(d)
		s.mu.Unlock()
	}
	pass(50*time.Millisecond, 0, 0)
	pass(51*time.Millisecond, 1, 1)
	pass(time.Second, 1, 1)
	s.passed(latest, latest+uint64(time.Hour), sources) // has delivered nothing
	later(99 * time.Millisecond)
	pass(time.Second, 1, 1)
	later(time.Millisecond)
	pass(time.Second, 2, 1)
	later(shedStep)
	pass(time.Second, 2, 1) // all that may be
	later(99 * time.Millisecond)
	pass(26*time.Millisecond, 2, 1) // neither late nor in time
	later(99 * time.Millisecond)
	s.relax()
	pass(25*time.Millisecond, 2, 1)
	later(time.Millisecond)
	s.relax()
	pass(0, 1, 1)
	s.relax()
	pass(0, 1, 1)
	later(shedStep)
	s.relax() // without a pass
	require.Equal(t, [2]int{0, 0}, [2]int{three.below, two.below})
	s.relax()
	pass(time.Second, 0, 0)
	later(shedStep)
	pass(time.Second, 1, 1)
	sources = sources[1:]
	pass(time.Second, 0, 1) // its reader was removed
	require.Zero(t, testing.AllocsPerRun(100, func() {
		latest++
		s.passed(latest, latest, sources)
	}))
	s.close()
	require.Zero(t, two.below)
	later(shedStep)
	pass(time.Second, 0, 0)
}

// changing counts the changes.
type changing struct {
	laned
	changes []time.Time
}

func (c *changing) Shed(below int) bool {
	if below != c.below {
		c.changes = append(c.changes, time.Now())
	}
	return c.laned.Shed(below)
}

// Whatever delays passes have, no second has more than 10 changes: with a user who is late as long
// as fewer than some lanes are shed, and in time otherwise, and with one who is late at random.
func TestShedderAtConstantOverload(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, late := range []func(below int) bool{
		func(below int) bool { return below < 1 },
		func(below int) bool { return below < 3 },
		func(below int) bool { return true },
		func(below int) bool { return rnd.IntN(2) == 0 },
		func(below int) bool { return rnd.IntN(200) == 0 },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &shedder{limit: 50 * time.Millisecond, now: time.Now}
			c := &changing{laned: laned{lanes: 5}}
			sources := []*source{{reader: &Reader{Parts: kernel.Parts{Shedder: c}}}}
			for latest := range uint64(60_000) {
				delay := time.Duration(0)
				s.mu.Lock() // the timer may be about to look
				below := c.below
				s.mu.Unlock()
				if late(below) {
					delay = time.Second
				}
				s.passed(1+latest, 1+latest+uint64(delay), sources)
				time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Millisecond))))
			}
			s.close()
			require.NotEmpty(t, c.changes)
			for i := 10; i < len(c.changes)-1; i++ { // the last is close's
				require.GreaterOrEqual(t, c.changes[i].Sub(c.changes[i-10]), time.Second)
			}
			t.Logf("%d changes in about a minute", len(c.changes))
		})
	}
}
