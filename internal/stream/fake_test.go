package stream

import (
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"

	"github.com/stretchr/testify/require"
)

const (
	ringSize   = 4096
	recordSize = 32 // size of a record with 12 bytes of payload
	room       = ringSize/recordSize - 1
	guard      = grace.DefaultGuard
)

// fake is a Stream of rings on Go memory, and their kernel.
type fake struct {
	*Ordered
	*ringtest.Still
	t      testing.TB
	clock  uint64
	w      []*ringtest.Ring
	counts ReaderCounts
	asked  []int // rings whose losses the kernel was asked about

	source *Source
	halt   atomic.Bool
	change atomic.Bool
	rings  Rings
	looks  func() // called when the stream yields: between two loads of heads
}

// account holds the counts of a ring's records.
type account struct{ Samples, Dropped, Lost, LostRecords, Unknown, Corrupt, Freed uint64 }

// newFake makes a stream of n empty rings.
func newFake(t testing.TB, n int, o Options) *fake { return newFakeWoken(t, n, o, Wakeup{}) }

func newFakeWoken(t testing.TB, n int, o Options, w Wakeup) *fake {
	f := &fake{t: t}
	f.Still = ringtest.NewStill(func() uint64 { return f.clock }, 0)
	f.rings.Init(RingsOptions{Room: 16, Flowing: func(int, uint64) {}})
	for range n {
		f.add()
	}
	if o.Above == 0 {
		o.Above, o.Until = 50, 25
	}
	if w.Enough == 0 {
		w.Enough = ringSize
	}
	f.begin(o, w)
	return f
}

// begin makes the fake's stream.
func (f *fake) begin(o Options, w Wakeup) {
	o.Now, o.Halt, o.Changed = f.Now, &f.halt, &f.change
	o.Yield = func() bool {
		if f.looks != nil {
			f.looks()
		}
		return false
	}
	f.Ordered = NewOrdered(new(Pass), o, func() {})
	f.source = &Source{Name: "map \"events\" (id 7)", Lost: f.Lost, Rings: &f.rings, Counts: &f.counts, Wakeup: w}
	f.Add(f.source)
}

// exact makes an exact stream. The test runs its barriers by calling Round.
func exact(t testing.TB, n int) (*fake, *grace.Barrier) {
	var f *fake
	b := grace.New(ringtest.Provider(func() error { return nil }), func() uint64 { return f.clock }, grace.BarrierOptions{})
	f = newFake(t, n, Options{barrier: b})
	return f, b
}

// add brings one more CPU online.
func (f *fake) add() {
	w := ringtest.New(ringSize, raw.LayoutRawTime, 0)
	r := &Ring{Raw: w.Raw()}
	r.Raw.SetCPU(len(f.w))
	f.w = append(f.w, w)
	f.rings.Add(r)
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

// round makes a round, and returns the times of its events.
func (f *fake) round(all bool) (got []uint64) {
	if all {
		f.BeginAll(0)
	} else {
		f.Begin()
	}
	return f.delivered()
}

// delivered returns the times of the events of a round that has begun.
func (f *fake) delivered() (got []uint64) {
	defer f.endRound()
	for evs := f.batch(); len(evs) > 0; evs = f.batch() {
		for _, ev := range evs {
			got = append(got, ev.Time())
		}
		f.took(len(evs))
	}
	return got
}

func (f *fake) Lost(ring int) (uint64, bool) {
	f.asked = append(f.asked, ring)
	if len(f.w) == 0 {
		return 0, false // ring buffers do not count them
	}
	return f.w[ring].Lost(), true
}

// tally holds the counts of a ring's records.
func (f *fake) tally(ring int) account {
	c := &f.rings.At(ring).Counts
	return account{
		Samples: c.Samples.Load(), Dropped: c.Dropped.Load(), Lost: f.rings.At(ring).Raw.Losses.Known.Load(), LostRecords: c.LostRecords.Load(),
		Unknown: c.Unknown.Load(), Corrupt: c.Corrupt.Load(), Freed: c.Bytes.Load(),
	}
}
