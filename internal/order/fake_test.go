package order

import (
	"testing"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

const (
	ringSize   = 4096
	recordSize = 32 // of a sample of 12 bytes
	room       = ringSize/recordSize - 1
	guard      = grace.DefaultGuard
)

// fake is a Stream of rings on Go memory, and their kernel.
type fake struct {
	*Stream
	*ringtest.Still
	t      testing.TB
	clock  uint64
	w      []*ringtest.Ring
	counts Counts
	asked  []int // rings about whose losses the kernel was asked

	looks   func() // before the stream looks for new rings
	tallies map[int]Tally
}

// newFake makes a stream of n empty rings.
func newFake(t testing.TB, n int, o Options) *fake {
	f := &fake{t: t, tallies: map[int]Tally{}}
	f.Still = ringtest.NewStill(func() uint64 { return f.clock }, 0)
	for range n {
		f.add()
	}
	if o.Above == 0 {
		o.Above, o.Until = 50, 25
	}
	if o.Wakeup.Enough == 0 {
		o.Wakeup.Enough = ringSize
	}
	f.Stream = New(f, owner{fake: f}, &f.counts, o)
	return f
}

// exact makes an exact stream. The test makes its barriers, by calling Round.
func exact(t testing.TB, n int) (*fake, *grace.Barrier) {
	var f *fake
	b := grace.New(ringtest.Provider(func() error { return nil }), func() uint64 { return f.clock }, grace.BarrierOptions{})
	f = newFake(t, n, Options{Barrier: b})
	return f, b
}

// add brings one more CPU online.
func (f *fake) add() {
	f.w = append(f.w, ringtest.New(ringSize, raw.LayoutRawTime, 0))
}

// output writes samples of these times.
func (f *fake) output(ring int, times ...uint64) {
	f.t.Helper()
	for _, time := range times {
		require.NoError(f.t, f.w[ring].Output(time, ringtest.Payload(time, 12)))
	}
}

// fill writes n samples, one per ns from a time on.
func (f *fake) fill(ring int, from uint64, n int) {
	f.t.Helper()
	for i := range n {
		f.output(ring, from+uint64(i))
	}
}

// round returns the times of what a round delivers.
func (f *fake) round(all bool) (got []uint64) {
	if all {
		f.BeginAll(0)
	} else {
		f.Begin()
	}
	defer f.End(Never)
	for evs := f.Batch(); len(evs) > 0; evs = f.Batch() {
		for _, ev := range evs {
			got = append(got, ev.Time())
		}
		f.Took(len(evs))
	}
	return got
}

func (f *fake) Lost(ring int) (uint64, bool) {
	f.asked = append(f.asked, ring)
	return f.w[ring].Lost(), true
}

// owner is the fake's rings, with what an earlier stream has left of each.
type owner struct {
	*fake
	left Losses
}

func (f owner) Rings(from int) (rings []Ring) {
	if f.looks != nil {
		f.looks()
	}
	for i, w := range f.w[from:] {
		r := w.Raw()
		r.SetCPU(from + i)
		rings = append(rings, Ring{Memory: r, Losses: f.left})
	}
	return rings
}

func (f owner) Loaded(int, uint64, uint64) {}

func (f owner) Count(ring int, t Tally) {
	sum := f.tallies[ring]
	sum.Samples += t.Samples
	sum.Dropped += t.Dropped
	sum.Lost += t.Lost
	sum.LostRecords += t.LostRecords
	sum.Unknown += t.Unknown
	sum.Corrupt += t.Corrupt
	sum.Freed += t.Freed
	f.tallies[ring] = sum
}
