package stream

import (
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

const firstCPU = 10

// rig is Rings on Go memory.
type rig struct {
	Rings
	t       testing.TB
	halt    atomic.Bool
	w       []*ringtest.Ring
	one     []*Ring
	flushes Flushes
	sources []*Rings   // only the rig's
	all     *Unordered // its pass covers all rings
	pass    Pass
	alone   []*Unordered // each pass covers one ring
	passes  []*Pass
	ordered [][]int // CPUs of the rings that Order received
	flowed  []int
}

func newRig(t testing.TB, n int) *rig {
	g := &rig{t: t}
	g.Init(RingsOptions{Room: n + 1, Order: g.fullest, Flowing: func(ring int, _ uint64) { g.flowed = append(g.flowed, ring) }})
	g.sources = []*Rings{&g.Rings}
	g.all = new(Unordered).Init(&g.pass, &g.halt, &g.flushes, func() {})
	for range n {
		g.add(firstCPU + len(g.w))
	}
	return g
}

func (g *rig) add(cpu int) {
	w := ringtest.New(ringSize, raw.LayoutRawTime, 0)
	ring, pass := &Ring{Raw: w.Raw()}, new(Pass)
	ring.Raw.SetCPU(cpu)
	g.Add(ring)
	g.w, g.one, g.passes = append(g.w, w), append(g.one, ring), append(g.passes, pass)
	g.alone = append(g.alone, new(Unordered).Init(pass, &g.halt, new(Flushes), func() {}))
}

func (g *rig) fullest(rings []*Ring) {
	var cpus []int
	for _, r := range rings {
		cpus = append(cpus, r.Raw.CPU())
	}
	g.ordered = append(g.ordered, cpus)
	slices.SortStableFunc(rings, func(a, b *Ring) int {
		used, _ := a.Look()
		other, _ := b.Look()
		return other - used
	})
}

func (g *rig) output(ring int, times ...uint64) {
	for _, time := range times {
		require.NoError(g.t, g.w[ring].Output(time, ringtest.Payload(time, 12)))
	}
}

// read takes at most n events of a pass that has begun, ends it, and returns their times.
func read(p *Pass, n int) (times []uint64) {
	defer p.End()
	if n == 0 {
		p.Next()
		return
	}
	for b := &p.Batch; p.Next(); {
		for _, ev := range b.List {
			b.Taken++
			if times = append(times, ev.Time()); len(times) == n {
				return
			}
		}
	}
	return
}

func TestARing(t *testing.T) {
	g := newRig(t, 1)
	g.output(0, 1, 2, 3)
	g.beginOne(0)
	g.output(0, 4) // after the loaded head
	require.Equal(t, []uint64{1, 2, 3}, read(g.passes[0], 9))
	require.Equal(t, uint64(3*recordSize), g.w[0].Tail())
	require.Equal(t, []int{0}, g.flowed)
	require.Equal(t, uint64(recordSize), g.one[0].Used())
	c := &g.one[0].Counts
	require.Equal(t, []uint64{3, 3 * recordSize, 3 * recordSize, 1}, []uint64{c.Samples.Load(), c.Bytes.Load(), c.HighWater.Load(), c.TailStores.Load()})
}

// A pass consumes the events taken, and at least the batch's first.
func TestEarlyEnd(t *testing.T) {
	for n, consumed := range []uint64{1, 1, 2, 3, 3} {
		g := newRig(t, 1)
		g.output(0, 1, 2, 3)
		g.begin()
		read(&g.pass, n)
		require.Equal(t, consumed*recordSize, g.w[0].Tail(), "%d taken", n)
		require.Equal(t, consumed, g.one[0].Counts.Samples.Load())
	}
}

// Handing out a batch takes its first event.
func TestSettle(t *testing.T) {
	var b Batch
	require.Zero(t, b.settle(), "there is none")
	for taken, want := range []int{1, 1, 2} {
		b.set(make([]raw.Event, 2))
		b.Taken = taken
		require.Equal(t, want, b.settle())
	}
}

// Finish takes the rest of a batch.
func TestFinish(t *testing.T) {
	g := newRig(t, 1)
	g.output(0, 1, 2, 3)
	g.begin()
	for g.pass.Next() {
		g.pass.Batch.Finish()
	}
	g.pass.End()
	require.Equal(t, uint64(3*recordSize), g.w[0].Tail())
	require.Zero(t, g.pass.Batch.settle(), "settled already")
}

// A pass visits rings in the order of Order, which sees how full they are; one ring needs no order.
func TestOrder(t *testing.T) {
	g := newRig(t, 3)
	g.output(0, 1)
	g.output(2, 2, 3)
	g.begin()
	require.Equal(t, []uint64{2, 3, 1}, read(&g.pass, 9))
	require.Equal(t, [][]int{{firstCPU, firstCPU + 2}}, g.ordered)
	require.Equal(t, []int{2, 0}, g.flowed)
	g.output(1, 4)
	g.begin()
	require.Equal(t, []uint64{4}, read(&g.pass, 9))
	require.Len(t, g.ordered, 1)
	used, grown := g.one[1].Look()
	require.Equal(t, [2]int{recordSize, recordSize}, [2]int{used, grown})
	require.Equal(t, uint64(2), g.Passes.Load())
}

// Rings that Order leaves out come later; a pass still reads all.
func TestOrderLeavesOut(t *testing.T) {
	g := newRig(t, 3)
	g.order = func(rings []*Ring) { clear(rings) }
	for i := range 3 {
		g.output(i, uint64(i))
	}
	g.begin()
	require.Equal(t, []uint64{0, 1, 2}, read(&g.pass, 9))
}

func TestBusy(t *testing.T) {
	g := newRig(t, 2)
	var flushes Flushes
	require.NoError(t, g.one[1].Claim(&flushes))
	require.ErrorIs(t, g.one[1].Claim(nil), ErrBusy)
	require.ErrorIs(t, g.Rings.Claim(), ErrBusy)
	require.NoError(t, g.one[0].Claim(nil), "the failed claim of all holds none")
	require.False(t, g.Asked(1))
	flushes.Ask(1)
	require.True(t, g.Asked(1))
	require.False(t, g.Asked(0))
	g.one[0].Disclaim()
	g.one[1].Disclaim()
	require.False(t, g.Asked(1), "the calls are the stream's")

	require.NoError(t, g.Rings.Claim())
	g.add(firstCPU + 2)
	for _, ring := range g.one {
		require.Equal(t, errHeld, ring.Claim(nil), "the new one too")
	}
	g.Rings.Disclaim()
	require.NoError(t, g.one[2].Claim(nil))
}

func TestHalt(t *testing.T) {
	g := newRig(t, 1)
	g.output(0, 1, 2)
	g.begin()
	require.True(t, g.pass.Next())
	require.False(t, g.pass.Halt.Load())
	g.halt.Store(true)
	require.True(t, g.pass.Halt.Load())
	require.False(t, g.pass.Next())
	require.Equal(t, os.ErrClosed, g.pass.Err)
	g.pass.End()
	samples, lost := g.one[0].count(g.w[0].Tail())
	require.Equal(t, [2]uint64{1, 0}, [2]uint64{samples, lost})
}

// A marker comes last, and answers all calls before the pass, but none after it.
func TestFlushes(t *testing.T) {
	g := newRig(t, 2)
	g.flushes.Ask(100)
	g.flushes.Ask(90) // by the clock of another CPU
	g.output(0, 1)
	g.output(1, 2, 3)
	g.begin()
	require.Equal(t, []uint64{2, 3, 1, 100}, read(&g.pass, 9))
	require.Nil(t, g.flushes.Load())

	g.flushes.Ask(200)
	g.begin()
	g.flushes.Ask(300)
	require.Empty(t, read(&g.pass, 9), "this pass has not loaded the heads after the second call")
	g.begin()
	require.Equal(t, []uint64{300}, read(&g.pass, 9))
}

// A pass over a nearly full ring frees it by eighths.
func TestNearlyFull(t *testing.T) {
	g := newRig(t, 1)
	n := 0
	for ; g.w[0].Output(uint64(n), ringtest.Payload(uint64(n), 12)) == nil; n++ {
	}
	g.beginOne(0)
	var tails []uint64
	for g.passes[0].Next() {
		if tail := g.w[0].Tail(); len(tails) == 0 || tails[len(tails)-1] != tail {
			tails = append(tails, tail)
		}
		g.passes[0].Batch.Finish()
	}
	g.passes[0].End()
	require.Equal(t, []uint64{0, 512, 1024, 1536, 2048, 2560, 3072, 3584}, tails)
}

// A loss shrinks by the losses delivered before it, and the samples around it bound its time.
func TestLoss(t *testing.T) {
	g := newRig(t, 1)
	g.output(0, 5)
	n := 1
	for ; g.w[0].Output(6, ringtest.Payload(6, 12)) == nil; n++ {
	}
	require.Error(t, g.w[0].Output(7, ringtest.Payload(7, 12)))
	g.beginOne(0)
	require.Len(t, read(g.passes[0], 1<<10), n)
	g.one[0].Raw.Losses.Advance = 1
	g.output(0, 8)
	g.beginOne(0)
	require.True(t, g.passes[0].Next())
	odd := g.passes[0].Batch.List[0].Odd()
	require.Equal(t, raw.Odd{Kind: raw.Lost, CPU: 10, Lost: 1, After: 6, Time: 8}, *odd)
	require.Equal(t, []uint64{8}, read(g.passes[0], 9))
	c := &g.one[0].Counts
	require.Equal(t, []uint64{1, 1, uint64(n) + 1}, []uint64{g.one[0].Raw.Losses.Known.Load(), c.LostRecords.Load(), c.Samples.Load()})
	require.Zero(t, g.one[0].Raw.Losses.Advance)
}

// Losses that programs have counted are known at once, from a recording or from the pass's
// question.
func TestCountedLosses(t *testing.T) {
	g := newRig(t, 1)
	g.w[0].Put(ringtest.TypeLost, []byte{8: 4, 16: 9, 24: 3, 31: 0})
	g.losses = func(into []raw.Odd) []raw.Odd {
		return append(into, raw.Odd{Kind: raw.Lost, CPU: 5, Lost: 2, Time: 10, Counted: true})
	}
	g.begin()
	require.Equal(t, []uint64{9, 10}, read(&g.pass, 2))
	require.EqualValues(t, 6, g.one[0].Raw.Losses.Known.Load())
	require.EqualValues(t, 2, g.one[0].Counts.LostRecords.Load())
}

func TestPassesDoNotAllocate(t *testing.T) {
	if raw.Poison {
		t.Skip("poison has memory of its own for each event")
	}
	g := newRig(t, 2)
	payload := ringtest.Payload(1, 12)
	require.Zero(t, testing.AllocsPerRun(300, func() { // samples that wrap around, too
		g.w[0].Output(1, payload)
		g.w[1].Output(1, payload)
		g.ordered, g.flowed = g.ordered[:0], g.flowed[:0]
		g.order = func([]*Ring) {}
		g.begin()
		for g.pass.Next() {
			g.pass.Batch.Finish()
		}
		g.pass.End()
	}))
}

// A pass that the first output after a pause begins reads a ring that holds something before it
// looks at the others, but not all of a full ring. The plan then covers what is left.
func TestRoused(t *testing.T) {
	g := newRig(t, 3)
	g.all.Begin(g.sources, true)
	require.Empty(t, read(&g.pass, 9), "woken for nothing")
	g.output(1, 1)
	g.output(2, 2, 3)
	g.all.Begin(g.sources, true)
	require.Equal(t, []uint64{1, 2, 3}, read(&g.pass, 9))
	require.Equal(t, []int{1, 2}, g.flowed)
	require.Empty(t, g.ordered, "no ring is to be chosen from several")
	require.Equal(t, []uint64{1, 1}, []uint64{g.one[1].Counts.TailStores.Load(), g.one[2].Counts.TailStores.Load()})
	g.output(0, 4)
	g.output(1, 5)
	g.output(2, 6, 7)
	g.begin()
	require.Equal(t, []uint64{6, 7, 4, 5}, read(&g.pass, 9), "the next pass is planned as ever")

	const most = leastVisit / recordSize
	w := ringtest.New(2*leastVisit, raw.LayoutRawTime, 0)
	full, other := &Ring{Raw: w.Raw()}, newRig(t, 1)
	full.Raw.SetCPU(firstCPU - 1)
	var rings Rings
	rings.Init(RingsOptions{Room: 2, Order: other.fullest, Flowing: func(int, uint64) {}})
	rings.Add(full)
	ring := &Ring{Raw: other.w[0].Raw()}
	rings.Add(ring)
	for n := range uint64(most + 5) {
		require.NoError(t, w.Output(100+n, ringtest.Payload(n, 12)))
	}
	other.output(0, 1)
	other.all.Begin([]*Rings{&rings}, true)
	times := read(&other.pass, most+9)
	require.Len(t, times, most+6)
	require.Equal(t, uint64(100+most-1), times[most-1])
	require.Len(t, other.ordered, 1, "then it looks at all")
}

// begin starts a pass over all rings.
func (g *rig) begin() { g.all.Begin(g.sources, false) }

// beginOne starts a pass over one ring alone.
func (g *rig) beginOne(i int) { g.alone[i].BeginOne(g.one[i]) }

// A pass reads one reader's rings after the other, each with its own errors. The next pass gets the
// remainder.
func TestSeveralReaders(t *testing.T) {
	a, b := newRig(t, 2), newRig(t, 2)
	both := func() { a.all.Begin([]*Rings{&a.Rings, &b.Rings}, false) }
	b.output(0, 3)
	a.output(1, 1)
	a.Fail(5, os.ErrExist, nil)
	b.Fail(6, os.ErrNotExist, nil)
	a.flushes.Ask(9)
	both()
	require.Equal(t, []uint64{1, 3, 9}, read(&a.pass, 99))
	require.Equal(t, os.ErrExist, a.pass.Err)
	both()
	require.Empty(t, read(&a.pass, 99))
	require.Equal(t, os.ErrNotExist, a.pass.Err)
	b.output(1, 4, 5, 6)
	a.output(0, 7, 8)
	both()
	require.Equal(t, []uint64{7, 8, 4}, read(&a.pass, 3))
	both()
	require.Equal(t, []uint64{5, 6}, read(&a.pass, 99))
	require.NoError(t, a.pass.Err)
	require.Equal(t, [2]uint64{4, 4}, [2]uint64{a.Passes.Load(), b.Passes.Load()})
	require.Equal(t, []int{1, 0}, a.flowed)
	require.Equal(t, []int{0, 1, 1}, b.flowed)
	a.all.Begin(nil, false)
	require.Empty(t, read(&a.pass, 9), "all have gone")
}
