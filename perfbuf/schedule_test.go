package perfbuf

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

func TestFullestFirst(t *testing.T) {
	for name, c := range map[string]struct {
		loads []Load
		want  []int
	}{
		"by share":     {[]Load{{CPU: 0, Size: 1000, Used: 10, Grown: 900}, {CPU: 1, Size: 1000, Used: 500}, {CPU: 2, Size: 1000, Used: 999}, {CPU: 3, Size: 1000, Used: 500, Grown: 7}}, []int{2, 1, 3, 0}},
		"as they came": {[]Load{{CPU: 0, Size: 8, Used: 3}, {CPU: 1, Size: 8, Used: 3}, {CPU: 2, Size: 16, Used: 6}}, []int{0, 1, 2}},
		"unequal":      {[]Load{{CPU: 0, Size: 1 << 20, Used: 1 << 17}, {CPU: 1, Size: 1 << 16, Used: 1<<16 - 8}, {CPU: 2, Size: 1 << 20, Used: 1 << 19}}, []int{1, 2, 0}},
		"the largest":  {[]Load{{CPU: 0, Size: 1 << 30, Used: 1<<30 - 8}, {CPU: 1, Size: 1 << 30, Used: 1 << 30}, {CPU: 2, Size: 64, Used: 63}}, []int{1, 0, 2}},
	} {
		FullestFirst(c.loads)
		var got []int
		for _, l := range c.loads {
			got = append(got, l.CPU)
		}
		require.Equal(t, c.want, got, name)
	}
}

// Rings of 64 KiB and of 8 MiB: the small one comes first though it holds less, and is not left to
// overflow while the large one is read.
func TestFullestFirstOfUnequalRings(t *testing.T) {
	small, large := ringtest.New(64<<10, raw.LayoutRawTime, 0), ringtest.New(8<<20, raw.LayoutRawTime, 0)
	var payload [12]byte
	fill := func(w *ringtest.Ring, percent uint64) {
		for w.Head()-w.Tail() < w.Raw().Size()/100*percent {
			require.NoError(t, w.Output(1, payload[:]))
		}
	}
	fill(large, 60)
	fill(small, 95)
	r, err := OpenSource(ringtest.NewStill(func() uint64 { return 1 << 40 }, firstCPU, large, small), Options{CPUs: []int{firstCPU, firstCPU + 1}})
	require.NoError(t, err)
	defer r.Close()
	var got []int
	s, err := unordered(r)
	require.NoError(t, err)
	require.NoError(t, s.ForEach(func(ev Event) error {
		if got = append(got, ev.CPU()); len(got)%3 == 0 {
			small.Output(1, payload[:])
		}
		return nil
	}))
	require.Equal(t, firstCPU+1, got[0])
	require.Zero(t, small.Lost())
	require.Greater(t, len(got), 8<<20/recordSize*60/100)
}

// schedules are the default, and those that users make, or get wrong.
func schedules() map[string]Schedule {
	return map[string]Schedule{
		"default":     nil,
		"fixed order": func([]Load) {},
		"random":      func(l []Load) { rand.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] }) },
		"forgets all": func(l []Load) { clear(l) },
		"forgets one": func(l []Load) { l[0] = Load{} },
		"one over and over": func(l []Load) {
			for i := range l {
				l[i] = l[len(l)-1]
			}
		},
		"invents":   func(l []Load) { l[0] = Load{CPU: 99, Size: -1, Used: 1024 * gib} },
		"emptiest":  func(l []Load) { slices.SortFunc(l, func(a, b Load) int { return a.Used - b.Used }) },
		"one twice": func(l []Load) { l[0] = l[len(l)-1] },
	}
}

const wideRing = 128 << 10 // data bytes, of which a visit reads an eighth

// newWide is newFake with rings large enough for a pass to come to them more than once.
func newWide(t testing.TB, n int, s Schedule) *fake {
	return newFake(t, n, Options{Schedule: s, RingBytes: wideRing})
}

// Whatever the order, a pass delivers all that was there at its beginning, once and in each ring's
// order.
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
						// A plain comparison: there are many
						if err := k.w[i].Output(time, payload[:]); err != nil {
							require.NoError(t, err)
						}
					}
				}
				require.NoError(t, k.unordered().ForEach(func(ev Event) error {
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

// What is output during a pass does not hold it up for ever, nor does it let other rings starve:
// all that was there is read, and at most as much again, and an eighth of a ring.
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
				require.NoError(t, k.unordered().ForEach(func(ev Event) error {
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
		require.NoError(t, k.unordered().ForEach(func(ev Event) error {
			if events++; events%3 == 0 { // one for three that are read
				k.w[2].Output(1, payload[:])
			}
			return nil
		}))
		return k.w[2].Lost()
	}
	require.Zero(t, lost(nil))
	require.Positive(t, lost(func(l []Load) { // else the test is of nothing
		slices.SortStableFunc(l, func(a, b Load) int { return a.Used - b.Used })
	}))
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
	require.NoError(t, k.unordered().ForEach(func(ev Event) error {
		i := ev.CPU() - firstCPU
		if i != last {
			visits++
		}
		last = i
		const most = 2 * eighth // one being read, and one handed out at once
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
		k := newWide(t, 3, func([]Load) {
			if calls++; calls == at {
				panic(errTest)
			}
		})
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
		require.PanicsWithValue(t, errTest, func() { k.unordered().ForEach(read) })
		require.Equal(t, 1, k.in.Gate.Inside())
		require.NoError(t, k.unordered().ForEach(read))
		require.Equal(t, [3]uint64{each, each, each}, got)
		require.NoError(t, k.Close())
		require.Equal(t, int32(1), k.freed.Load())
	}
}

// A Schedule learns how many bytes a ring holds and how many are new; one ring needs none.
func TestScheduleLoads(t *testing.T) {
	var got [][]Load
	k := newFake(t, 3, Options{Schedule: func(l []Load) {
		loads := slices.Clone(l)
		for i := range loads {
			loads[i].ring = nil
		}
		got = append(got, loads)
	}})
	load := func(i, used, grown int) Load {
		return Load{CPU: firstCPU + i, Size: fakeRingSize, Used: used * recordSize, Grown: grown * recordSize}
	}
	k.output(0, 1, 2, 3)
	k.output(2, 4)
	require.NoError(t, k.unordered().ForEach(func(Event) error { return ErrStop }))
	k.output(2, 5, 6)
	require.Len(t, ids(t, k.unordered()), 5)
	require.Equal(t, [][]Load{{load(0, 3, 3), load(2, 1, 1)}, {load(0, 2, 0), load(2, 3, 2)}}, got)
	k.output(1, 7)
	require.Len(t, ids(t, k.unordered()), 1)
	require.Len(t, got, 2)
}

// A head that goes back in the middle of a pass, as no kernel's does, does not hold it up.
func TestHeadGoesBackDuringAPass(t *testing.T) {
	k := newFake(t, 2, Options{Schedule: func([]Load) {}})
	k.output(0, 1)
	k.output(1, 2, 3, 4)
	require.NoError(t, k.unordered().ForEach(func(ev Event) error {
		k.w[1].SetHead(0)
		k.w[1].Publish()
		return nil
	}))
}

func TestFullestFirstDoesNotAllocate(t *testing.T) {
	loads := make([]Load, 64)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		for i := range loads {
			loads[i] = Load{CPU: i, Size: 1000, Used: i * 37 % 1000}
		}
		FullestFirst(loads)
	}))
}

// A head that has gone back behind the tail before the pass begins, as only damage makes it.
func TestHeadBehindTail(t *testing.T) {
	k := newFake(t, 2, Options{})
	k.output(1, 1, 2, 3, 4)
	require.Len(t, ids(t, k.unordered()), 4)
	k.w[1].SetHead(0)
	k.w[1].Publish()
	k.output(0, 5)
	require.Equal(t, []uint64{5}, ids(t, k.unordered()))
}
