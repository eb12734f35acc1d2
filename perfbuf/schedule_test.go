package perfbuf

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

func TestScheduleOrders(t *testing.T) {
	const size = 1000
	load := func(cpu, used, grown int) Load { return Load{CPU: cpu, Size: size, Used: used, Grown: grown} }
	for name, c := range map[string]struct {
		schedule Schedule
		loads    []Load
		want     []int
	}{
		"fullest first":         {FullestFirst(), []Load{load(0, 10, 900), load(1, 500, 0), load(2, 999, 1), load(3, 500, 7)}, []int{2, 1, 3, 0}},
		"fullest first, sorted": {FullestFirst(), []Load{load(0, 3, 0), load(1, 3, 0), load(2, 3, 0)}, []int{0, 1, 2}},
		// 900/90 = 10, 500/10 = 50, 100/1 = 100 and 300/100 = 3 looks from now; the others never.
		"soonest full":          {SoonestFull(), []Load{load(0, 100, 90), load(1, 500, 10), load(2, 900, 1), load(3, 700, 100), load(4, 20, 0), load(5, 800, 0)}, []int{3, 0, 1, 2, 5, 4}},
		"soonest full, at once": {SoonestFull(), []Load{load(0, 999, 1), load(1, 1000, 1), load(2, 0, 1000)}, []int{1, 0, 2}},
		// Nothing comes to a ring that is full. It is full already.
		"soonest full, one is":     {SoonestFull(), []Load{load(0, 64, 64), load(1, 400, 0), load(2, 1000, 0), load(3, 500, 500)}, []int{2, 3, 0, 1}},
		"soonest full, one nearly": {SoonestFull(), []Load{load(0, 64, 64), load(1, 990, 0), load(2, 870, 0), load(3, 500, 500)}, []int{1, 3, 0, 2}},
		"fixed order":              {FixedOrder(), []Load{load(3, 1, 1), load(5, 1000, 1000), load(9, 0, 0)}, []int{3, 5, 9}},
		"a function":               {ScheduleFunc(func(l []Load) { slices.Reverse(l) }), []Load{load(3, 1, 1), load(5, 0, 0)}, []int{5, 3}},
	} {
		c.schedule.Order(c.loads)
		var got []int
		for _, l := range c.loads {
			got = append(got, l.CPU)
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestRoundRobin(t *testing.T) {
	s := RoundRobin()
	for _, c := range [][2][]int{
		{{0, 1, 2, 3}, {0, 1, 2, 3}},
		{{0, 1, 2, 3}, {1, 2, 3, 0}},
		{{0, 1, 3}, {3, 0, 1}}, // 2 has nothing to read
		{{0, 1, 2, 3}, {0, 1, 2, 3}},
		{{0}, {0}},
		{{4, 7}, {4, 7}},
		{{4, 7}, {7, 4}},
	} {
		var loads []Load
		for _, cpu := range c[0] {
			loads = append(loads, Load{CPU: cpu})
		}
		s.Order(loads)
		var got []int
		for _, l := range loads {
			got = append(got, l.CPU)
		}
		require.Equal(t, c[1], got)
	}
	again := []Load{{CPU: 0}, {CPU: 1}}
	RoundRobin().Order(again)
	require.Equal(t, 0, again[0].CPU, "each has a memory of its own")
}

// schedules are those built in, and those that users get wrong.
func schedules() map[string]Schedule {
	return map[string]Schedule{
		"default":       nil,
		"fullest first": FullestFirst(),
		"soonest full":  SoonestFull(),
		"round robin":   RoundRobin(),
		"fixed order":   FixedOrder(),
		"random":        ScheduleFunc(func(l []Load) { rand.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] }) }),
		"forgets all":   ScheduleFunc(func(l []Load) { clear(l) }),
		"forgets one":   ScheduleFunc(func(l []Load) { l[0] = Load{} }),
		"one over and over": ScheduleFunc(func(l []Load) {
			for i := range l {
				l[i] = l[len(l)-1]
			}
		}),
		"invents":   ScheduleFunc(func(l []Load) { l[0] = Load{CPU: 99, Size: -1, Used: 1024 * gib} }),
		"emptiest":  ScheduleFunc(func(l []Load) { slices.SortFunc(l, func(a, b Load) int { return a.Used - b.Used }) }),
		"one twice": ScheduleFunc(func(l []Load) { l[0] = l[len(l)-1] }),
	}
}

const wideRing = 128 << 10 // data bytes, of which a visit reads an eighth

// newWide is newFake with rings large enough for a pass to come to them more than once.
func newWide(t testing.TB, n int, s Schedule) *fake {
	return newFake(t, n, Options{Schedule: s, RingBytes: wideRing})
}

// Whatever the order, a pass delivers all that was there at its beginning, once and in each ring's order.
func TestScheduleDeliversAll(t *testing.T) {
	for name, s := range schedules() {
		t.Run(name, func(t *testing.T) {
			const n, rounds = 4, 4
			k := newWide(t, n, s)
			rnd := rand.New(rand.NewPCG(1, 2))
			next := make([]uint64, n)
			var payload [12]byte
			for range rounds {
				want := slices.Clone(next)
				for i := range want {
					want[i] += uint64(rnd.IntN(2) * rnd.IntN(wideRing/recordSize))
					for time := next[i]; time < want[i]; time++ {
						if err := k.w[i].Output(time, payload[:]); err != nil { // a plain comparison: there are many
							require.NoError(t, err)
						}
					}
				}
				require.NoError(t, k.ForEach(func(ev Event) error {
					i := ev.CPU() - firstCPU
					if got := ev.Time(); got != next[i] {
						require.Equal(t, next[i], got, "ring %d", i)
					}
					next[i]++
					return nil
				}))
				require.Equal(t, want, next)
			}
			for _, w := range k.w {
				require.Equal(t, w.Head(), w.Tail())
			}
			require.Equal(t, uint64(rounds), k.Stats().Passes)
		})
	}
}

// What is output during a pass does not hold it up for ever, nor does it let other rings starve: all
// that was there is read, and at most as much again, and an eighth of a ring.
func TestScheduleEnds(t *testing.T) {
	for name, s := range schedules() {
		for _, into := range []string{"the same ring", "one ring", "all rings"} {
			t.Run(name+", into "+into, func(t *testing.T) {
				const n, each = 3, 2200
				k := newWide(t, n, s)
				var payload [12]byte
				emit := func(i int) { k.w[i].Output(1, payload[:]) } // or it is lost
				for i := range n {
					for range each {
						emit(i)
					}
				}
				var got [n]int
				total, emitted := 0, 0
				require.NoError(t, k.ForEach(func(ev Event) error {
					if ev.Kind() == KindSample {
						got[ev.CPU()-firstCPU]++
					}
					total++
					for range 2 {
						emitted++
						switch into {
						case "the same ring":
							emit(ev.CPU() - firstCPU)
						case "one ring":
							emit(1)
						default:
							emit(emitted % n)
						}
					}
					if total > 10*n*each {
						return errTest
					}
					return nil
				}))
				for i := range n {
					require.GreaterOrEqual(t, got[i], each, "ring %d", i)
				}
				require.LessOrEqual(t, total, 2*n*each+wideRing/8/recordSize)
			})
		}
	}
}

// A ring that fills up again while others are read is read in time.
func TestScheduleRevisitsAHotRing(t *testing.T) {
	const n, each = 4, 3200 // of 4095 that fit
	lost := func(s Schedule) uint64 {
		k := newWide(t, n, s)
		var payload [12]byte
		for _, w := range k.w {
			for range each {
				require.NoError(t, w.Output(1, payload[:]))
			}
		}
		events := 0
		require.NoError(t, k.ForEach(func(ev Event) error {
			if events++; events%3 == 0 { // one for three that are read
				k.w[2].Output(1, payload[:])
			}
			return nil
		}))
		return k.w[2].Lost()
	}
	require.Zero(t, lost(FullestFirst()))
	require.Zero(t, lost(SoonestFull()))
	require.Zero(t, lost(nil))
	require.Positive(t, lost(ScheduleFunc(func(l []Load) { // else the test is of nothing
		slices.SortStableFunc(l, func(a, b Load) int { return a.Used - b.Used })
	})))
}

// The tail moves on as rings are read, an eighth after the other, the fullest ring's first.
func TestQuantum(t *testing.T) {
	k := newWide(t, 2, nil)
	const each, eighth = 3500, wideRing / 8
	var payload [12]byte
	for _, w := range k.w {
		for range each {
			require.NoError(t, w.Output(1, payload[:]))
		}
	}
	n := [2]uint64{}
	visits, last := 0, -1
	require.NoError(t, k.ForEach(func(ev Event) error {
		i := ev.CPU() - firstCPU
		if i != last {
			visits++
		}
		last = i
		const most = 2 * eighth // one that is being read, and what is handed out at once
		if behind := n[i]*recordSize - k.w[i].Tail(); behind > most {
			require.LessOrEqual(t, behind, uint64(most))
		}
		n[i]++
		return nil
	}))
	require.Equal(t, [2]uint64{each, each}, n)
	require.GreaterOrEqual(t, visits, 4)
}

// A Schedule that panics leaves the Reader as it was.
func TestSchedulePanics(t *testing.T) {
	for _, at := range []int{1, 2, 3} {
		calls := 0
		k := newWide(t, 3, ScheduleFunc(func([]Load) {
			if calls++; calls == at {
				panic(errTest)
			}
		}))
		const each = 2000
		for i := range k.w {
			for time := range uint64(each) {
				require.NoError(t, k.w[i].Output(time, ringtest.Payload(time, 12)))
			}
		}
		var got [3]uint64
		read := func(ev Event) error {
			i := ev.CPU() - firstCPU
			if id := id(t, ev); id != got[i] {
				require.Equal(t, got[i], id)
			}
			got[i]++
			return nil
		}
		require.PanicsWithValue(t, errTest, func() { k.ForEach(read) })
		require.Equal(t, 1, k.in.Gate.Inside())
		require.NoError(t, k.ForEach(read))
		require.Equal(t, [3]uint64{each, each, each}, got)
		require.NoError(t, k.Close())
		require.Equal(t, int32(1), k.freed.Load())
	}
}

// A Schedule is told what a ring holds, and how much of it is new; one ring needs none.
func TestScheduleLoads(t *testing.T) {
	var got [][]Load
	k := newFake(t, 3, Options{Schedule: ScheduleFunc(func(l []Load) {
		loads := slices.Clone(l)
		for i := range loads {
			loads[i].ring = nil
		}
		got = append(got, loads)
	})})
	load := func(i, used, grown int) Load {
		return Load{CPU: firstCPU + i, Size: fakeRingSize, Used: used * recordSize, Grown: grown * recordSize}
	}
	k.output(0, 1, 2, 3)
	k.output(2, 4)
	require.NoError(t, k.ForEach(func(Event) error { return ErrStop }))
	k.output(2, 5, 6)
	require.Len(t, ids(t, k.Reader), 5)
	require.Equal(t, [][]Load{{load(0, 3, 3), load(2, 1, 1)}, {load(0, 2, 0), load(2, 3, 2)}}, got)
	k.output(1, 7)
	require.Len(t, ids(t, k.Reader), 1)
	require.Len(t, got, 2)
}

// A head that goes back in the middle of a pass, as no kernel's does, does not hold it up.
func TestHeadGoesBackDuringAPass(t *testing.T) {
	k := newFake(t, 2, Options{Schedule: FixedOrder()})
	k.output(0, 1)
	k.output(1, 2, 3, 4)
	require.NoError(t, k.ForEach(func(ev Event) error {
		k.w[1].SetHead(0)
		k.w[1].Publish()
		return nil
	}))
}

// The built-in orders allocate nothing.
func TestScheduleDoesNotAllocate(t *testing.T) {
	loads := make([]Load, 64)
	for name, s := range map[string]Schedule{"fullest": FullestFirst(), "soonest": SoonestFull(), "robin": RoundRobin(), "fixed": FixedOrder()} {
		require.Zero(t, testing.AllocsPerRun(20, func() {
			for i := range loads {
				loads[i] = Load{CPU: i, Size: 1000, Used: i * 37 % 1000, Grown: i * 91 % 1000}
			}
			s.Order(loads)
		}), name)
	}
}

// A head that has gone back behind the tail before the pass begins, as only damage makes it.
func TestHeadBehindTail(t *testing.T) {
	k := newFake(t, 2, Options{})
	k.output(1, 1, 2, 3, 4)
	require.Len(t, ids(t, k.Reader), 4)
	k.w[1].SetHead(0)
	k.w[1].Publish()
	k.output(0, 5)
	require.Equal(t, []uint64{5}, ids(t, k.Reader))
}
