package merge_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// sim writes rings as CPUs do, under one clock: outputs are interrupted by
// others after their time is taken, so that older times land behind younger ones, or before they
// are published, so that a ring's newest records stay unseen for a while.
type sim struct {
	*bench
	rnd   *rand.Rand
	clock uint64
	cpus  []cpu

	chooseKeys bool // of payloads
}

// cpu is what is under way on one.
type cpu struct {
	outer      uint64 // time taken by an output that was interrupted before it wrote, 0 if none
	unseen     uint64 // least time that is written and not published, if Defer is set
	quietUntil uint64
}

func newSim(t testing.TB, seed uint64, rings, size int) *sim {
	starts := []uint64{0, 1<<32 - 512, math.MaxUint64 - 1023, 1<<63 - 64}
	block := min(size, max(size/4, 1<<16))
	return &sim{
		bench: setup{
			rings: rings,
			size:  size,
			start: starts[seed%4],
			spill: []int{3 * block, 0, block, 100*block + 1, block - 1}[seed%5],
		}.bench(t),
		rnd:   rand.New(rand.NewPCG(seed, uint64(rings))),
		clock: 1000,
		cpus:  make([]cpu, rings),
	}
}

// step lets one CPU do something.
func (s *sim) step() {
	if s.rnd.IntN(3) > 0 {
		s.clock += s.rnd.Uint64N(5)
	}
	i := s.rnd.IntN(len(s.lanes))
	c, l := &s.cpus[i], s.lanes[i]
	if c.quietUntil > s.clock {
		return
	}
	n := 12 + s.rnd.IntN(len(l.Data())/12)
	switch s.rnd.IntN(24) {
	case 0:
		c.quietUntil = s.clock + s.rnd.Uint64N(uint64(10*len(s.lanes)))
	case 1, 2:
		s.throttle(i, 8*s.rnd.IntN(5))
	case 3, 4:
		if c.outer == 0 {
			c.outer = s.clock
		}
	case 5, 6, 7:
		if c.outer != 0 {
			time := c.outer
			if l.Pending() > 0 {
				time = s.clock // the kernel takes the time again when it adds a report of losses
			}
			s.write(i, time, n)
			c.outer = 0
		}
	case 8, 9:
		if !l.Defer {
			l.Defer, c.unseen = true, math.MaxUint64
		}
	case 10, 11, 12:
		s.publish(i)
	case 13:
		if s.now == nil && s.rnd.IntN(4) == 0 { // nobody scans while an event is with the user
			s.damage(i, 8*(1+s.rnd.IntN(len(l.Data())/32)))
		}
	default:
		s.write(i, s.clock, n)
	}
}

func (s *sim) write(i int, time uint64, n int) {
	if s.chooseKeys {
		switch s.rnd.IntN(8) {
		case 0: // it has none
		case 1:
			s.keys[s.ids+1] = forever + s.rnd.Uint64N(5)
		case 2:
			s.keys[s.ids+1] = time + s.rnd.Uint64N(100)
		default:
			s.keys[s.ids+1] = time - min(time, s.rnd.Uint64N(30))
		}
	}
	if s.output(i, time, n) && s.lanes[i].Defer {
		s.cpus[i].unseen = min(s.cpus[i].unseen, time)
	}
}

func (s *sim) publish(i int) {
	s.lanes[i].Defer = false
	s.lanes[i].Publish()
}

// bound is the greatest time that nothing still to come can be at or below.
func (s *sim) bound() uint64 {
	bound := s.clock
	for i, c := range s.cpus {
		if c.outer != 0 {
			bound = min(bound, c.outer)
		}
		if s.lanes[i].Defer {
			bound = min(bound, c.unseen)
		}
	}
	return bound - 1
}

// run plays rounds, each up to what watermark says before the heads are loaded.
func (s *sim) run(watermark func() uint64) {
	for range 6 + 60/len(s.lanes) {
		for range s.rnd.IntN(40 * len(s.lanes)) {
			s.step()
		}
		w := watermark()
		for range s.rnd.IntN(4) { // between the watermark and the heads
			s.step()
		}
		for _, i := range s.rnd.Perm(len(s.lanes)) {
			s.scan(i)
		}
		if s.rnd.IntN(8) == 0 {
			continue // a look at what is held, no round
		}
		for range s.rnd.IntN(3) {
			s.disturb()
		}
		s.play(w)
	}
	for i := range s.lanes {
		s.publish(i)
	}
	s.round(all)
	s.empty()
}

// play is one round, in which CPUs go on and the user may stop early.
func (s *sim) play(w uint64) {
	due := s.due(w)
	stop := len(due)
	if s.rnd.IntN(4) == 0 {
		stop = s.rnd.IntN(len(due) + 1)
	}
	s.begin(w)
	for _, want := range due[:stop] {
		s.next(want)
		if s.rnd.IntN(4) == 0 {
			s.step()
		}
		s.disturb()
	}
	if stop == len(due) {
		s.over()
		return
	}
	s.end()
}

// disturb does what a merger's user may do between two events, and between rounds.
func (s *sim) disturb() {
	i := s.rnd.IntN(len(s.lanes))
	switch s.rnd.IntN(24) {
	case 0, 1:
		s.spill(i)
	case 2:
		s.finish()
		s.scan(i)
	case 3:
		s.finish()
		s.lose(i, s.clock)
	}
}

func simulate(t *testing.T, play func(t *testing.T, s *sim)) {
	for _, rings := range []int{1, 2, 3, 8, 33} {
		for seed := range uint64(seeds) {
			size := []int{512, 1024, 4096}[seed%3]
			if rings == 3 {
				size = []int{128 << 10, 512 << 10}[seed%2] // larger than a block
			}
			t.Run(fmt.Sprintf("%d rings, seed %d", rings, seed), func(t *testing.T) {
				s := newSim(t, seed, rings, size)
				play(t, s)
				t.Logf("%d delivered, %d late, %d lost, of these %d without a record, %d inversions, %d corrupt, %d commits, %d bytes spilled",
					s.delivered, s.late, s.lost, s.added, s.inversions, s.corrupt, s.commits, s.moved)
				require.NotZero(t, s.inversions)
				require.NotZero(t, s.unknown)
				if s.budget >= size {
					require.NotZero(t, s.moved)
				}
			})
		}
	}
}

// With a watermark below everything that is still to come, nothing is late.
func TestTrueWatermarkNeverMakesLate(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		s.run(s.bound)
		require.Zero(t, s.late)
	})
}

// With one that guesses, those and only those are flagged that come after a later one.
func TestEagerWatermarkFlagsWhatIsLate(t *testing.T) {
	late := 0
	simulate(t, func(t *testing.T, s *sim) {
		s.run(func() uint64 { return s.clock - 3 })
		late += s.late
	})
	require.NotZero(t, late)
}

// A watermark may also go back, as after a flush.
func TestWatermarkThatGoesBack(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		s.run(func() uint64 {
			if s.rnd.IntN(3) == 0 {
				return s.clock + 1000
			}
			return s.clock - min(s.clock, s.rnd.Uint64N(200))
		})
	})
}

// Many records of few times, to see that equals come by ring and offset.
func TestEqualTimesComeByRingAndOffset(t *testing.T) {
	for seed := range uint64(8) {
		b := newBench(t, 5, 4096, 0)
		rnd := rand.New(rand.NewPCG(seed, 5))
		for range 200 {
			b.output(rnd.IntN(5), 7+rnd.Uint64N(3), 12) // times are 7, 8 and 9, mostly not in order
		}
		b.scanAll()
		due := b.due(all)
		require.True(t, slices.IsSortedFunc(due, func(x, y expected) int {
			if x.key == y.key && x.ring == y.ring {
				return int(int64(x.off - y.off))
			}
			return 0
		}))
		b.round(all)
		b.empty()
		require.Equal(t, 200, b.delivered)
	}
}
