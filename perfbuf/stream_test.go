package perfbuf

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// slack makes a stream with a slack of 100 ns, at a time of the test's choice.
func (k *fake) slack(now uint64) *Stream {
	k.t.Helper()
	k.clock.Store(now)
	s, err := k.Stream(StreamOptions{Order: Slack(100)})
	require.NoError(k.t, err)
	return s
}

func TestOrderOverRings(t *testing.T) {
	k := newFake(t, 3, Options{})
	s := k.stream()
	k.output(2, 10, 40, 70)
	k.output(0, 20, 50, 45, 80) // 45 was interrupted by 50
	k.output(1, 30, 60, 60)
	k.output(2, 90, 60)
	var got []uint64
	var cpus []int
	require.NoError(t, s.ForEach(func(ev Event) error {
		require.False(t, ev.Late())
		got, cpus = append(got, id(t, ev)), append(cpus, ev.CPU()-firstCPU)
		return nil
	}))
	require.Equal(t, []uint64{10, 20, 30, 40, 45, 50, 60, 60, 60, 70, 80, 90}, got)
	require.Equal(t, []int{2, 0, 1, 2, 0, 0, 1, 1, 2, 2, 0, 2}, cpus)
	st := k.Stats()
	require.Equal(t, uint64(2), st.Inversions)
	require.Zero(t, st.Late)
	require.Equal(t, uint64(1), st.Passes)
	for i, w := range k.w {
		require.Equal(t, w.Head(), w.Tail())
		require.Equal(t, uint64(1), st.Rings[i].TailStores)
	}
}

// An event's turn comes when the clock is the slack past its time, not before.
func TestNothingComesBeforeItsSlackHasPassed(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.slack(0)
	k.output(0, 500, 520)
	k.output(1, 510)
	for now, want := range map[uint64][]uint64{50: nil, 599: nil} {
		k.clock.Store(now)
		require.Equal(t, want, ids(t, s))
	}
	k.clock.Store(600)
	require.Equal(t, []uint64{500}, ids(t, s))
	require.Equal(t, uint64(recordSize), k.w[0].Tail(), "the rest is held in its ring")
	k.output(1, 515)
	k.clock.Store(616)
	require.Equal(t, []uint64{510, 515}, ids(t, s))
	k.clock.Store(619)
	require.Empty(t, ids(t, s))
	k.clock.Store(620)
	require.Equal(t, []uint64{520}, ids(t, s))
	require.Zero(t, k.Stats().Late)
}

func TestLateEventsAreFlaggedAndCounted(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.slack(1000)
	k.output(0, 700, 800)
	require.Equal(t, []uint64{700, 800}, ids(t, s))
	k.output(1, 650, 750, 800, 900) // 650 and 750 come after 800
	var late []bool
	require.NoError(t, s.ForEach(func(ev Event) error {
		late = append(late, ev.Late())
		require.Equal(t, ev.Late(), ev.Record().Late)
		return nil
	}))
	require.Equal(t, []bool{true, true, false, false}, late)
	st := k.Stats()
	require.Equal(t, uint64(2), st.Late)
	require.Equal(t, 150*time.Nanosecond, st.MaxLateness)

	k.output(0, 890)
	require.Equal(t, []uint64{890}, ids(t, s))
	require.Equal(t, uint64(3), k.Stats().Late)
	require.Equal(t, 150*time.Nanosecond, k.Stats().MaxLateness)

	require.NoError(t, s.Close())
	k.output(0, 1) // of the ring whose last was late
	k.output(1, 1)
	require.NoError(t, k.unordered().ForEach(func(ev Event) error {
		require.False(t, ev.Late(), "what is not ordered is not late")
		return nil
	}))
}

func TestRestDeliversEverything(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.slack(1000)
	k.output(0, 990, 995)
	k.output(1, 991, 999)
	require.Empty(t, ids(t, s))
	var got []uint64
	take := func(ev Event) error { got = append(got, id(t, ev)); return nil }
	require.NoError(t, s.ForEachPending(take))
	require.Equal(t, []uint64{990, 991, 995, 999}, got)
	require.NoError(t, s.ForEachPending(never))

	// An older one that comes then, behind its ring's last, is late and nothing worse: it waits in
	// its ring, as the watermark has gone back, and nobody frees it meanwhile.
	k.output(0, 993)
	require.Empty(t, ids(t, s))
	require.Equal(t, uint64(recordSize), k.w[0].Head()-k.w[0].Tail())
	k.clock.Store(1093)
	got = nil
	require.NoError(t, s.ForEach(func(ev Event) error { require.True(t, ev.Late()); return take(ev) }))
	require.Equal(t, []uint64{993}, got)

	k.output(1, 1090)
	require.Equal(t, errTest, s.ForEachPending(func(Event) error { return errTest }))
	require.NoError(t, s.ForEachPending(never), "it was consumed")
}

func TestLossInAStream(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.stream()
	n := uint64(k.fill(0, 1000))
	require.Len(t, ids(t, s), int(n))
	k.output(1, 4000, 5000, 6000)
	k.output(0, 5500) // reports the loss
	var recs []Record
	require.NoError(t, s.ForEach(func(ev Event) error { recs = append(recs, unsourced(ev)); return nil }))
	require.Len(t, recs, 5)
	require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Time: 5500, Lost: 1, LostAfter: 999 + n}, recs[2])
	require.Equal(t, []uint64{4000, 5000, 5500, 5500, 6000},
		[]uint64{recs[0].Time, recs[1].Time, recs[2].Time, recs[3].Time, recs[4].Time})
	require.Equal(t, KindSample, recs[3].Kind)
	require.Equal(t, uint64(1), k.Stats().Total().Lost)
}

// A time more than a second ahead of the clock cannot be: such an event would hold up all that
// follow.
func TestTimeInTheFutureIsCorrupt(t *testing.T) {
	const second = uint64(time.Second)
	k := newFake(t, 1, Options{})
	s := k.slack(5 * second)
	k.output(0, second, 6*second, 6*second+1, 2*second)
	var errs []error
	require.NoError(t, s.ForEachPending(func(ev Event) error { errs = append(errs, ev.Err()); return nil }))
	require.Len(t, errs, 4)
	var corrupt *CorruptError
	require.True(t, errors.As(errs[3], &corrupt), "%v", errs)
	require.Equal(t, CorruptError{CPU: firstCPU, Offset: 2 * recordSize, Skipped: recordSize, Reason: "time is in the future"}, *corrupt)
	require.Equal(t, k.w[0].Head(), k.w[0].Tail())
}

// Closing a stream gives its rings back. What it had seen and not delivered is dropped, and
// counted.
func TestCloseOfAStream(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.slack(1000)
	k.output(0, 100, 950, 940)
	k.output(1, 930)
	require.Equal(t, []uint64{100}, ids(t, s))
	k.output(1, 970) // which it has not seen
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.Equal(t, os.ErrClosed, s.ForEach(never))
	require.Equal(t, []uint64{970}, ids(t, k.unordered()))
	require.EqualValues(t, 3, k.Stats().Total().Dropped)
	require.Zero(t, k.freed.Load())
	k.release()
	next := k.stream()
	k.output(0, 960)
	require.Equal(t, []uint64{960}, ids(t, next))
	require.NoError(t, s.Close(), "of the old one")
	requireHeld(t, k.all()[0])
}

func TestCloseOfAStreamWithinItsPass(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.stream()
	k.output(0, 1, 3)
	k.output(1, 2)
	n := 0
	require.Equal(t, os.ErrClosed, s.ForEach(func(ev Event) error {
		n++
		require.NoError(t, s.Close())
		requireHeld(t, k)
		require.Equal(t, uint64(1), id(t, ev))
		return nil
	}))
	require.Equal(t, 1, n)
	require.Empty(t, ids(t, k.unordered()))
	require.EqualValues(t, 2, k.Stats().Total().Dropped)
	k.release()
	require.NoError(t, k.stream().Close())
}

// What a round leaves unread is read by the next, though corrupt memory came between.
func TestStreamGoesOnBehindCorruptMemory(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.stream()
	k.output(0, 10)
	k.output(1, 5, 20, 40)
	k.w[0].PutHeader(ringtest.TypeSample, 4, 48)
	require.Equal(t, []uint64{5, 10, ^uint64(10), 20, 40}, ids(t, s))
	k.output(0, 50)
	require.Equal(t, []uint64{50}, ids(t, s))
	require.Equal(t, uint64(1), k.Stats().Total().Corrupt)
}

// Corrupt memory has no time of its own. In a ring that was idle for long it takes the stream's,
// and is not late.
func TestCorruptMemoryIsNotLate(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.stream()
	k.output(0, 10)
	k.output(1, 20)
	require.Equal(t, []uint64{10, 20}, ids(t, s))
	k.w[0].PutHeader(ringtest.TypeSample, 4, 48)
	require.NoError(t, s.ForEach(func(ev Event) error {
		require.Equal(t, KindCorrupt, ev.Kind())
		require.Equal(t, uint64(20), ev.Time())
		require.False(t, ev.Late())
		return nil
	}))
	require.Equal(t, uint64(1), k.Stats().Total().Corrupt)
	require.Zero(t, k.Stats().Late)
}

// The watermark is the clock as it was before the heads were looked at: an event output in between
// is in order, however small the slack.
func TestClockIsReadBeforeTheHeads(t *testing.T) {
	k := newFake(t, 2, Options{})
	k.output(0, 960)
	reads := 0
	k.hooks.clock = func() uint64 {
		if reads++; reads == 1 {
			k.output(1, 950)
		}
		return 1000
	}
	require.Equal(t, []uint64{950, 960}, ids(t, k.stream()))
	require.Zero(t, k.Stats().Late)
}

// What bounds the times that can be honest is the clock as it is after the heads were looked at.
func TestClockIsReadAfterTheHeadsToo(t *testing.T) {
	k := newFake(t, 1, Options{})
	const late = uint64(1000 + 5*time.Second) // we were stopped for that long
	reads := 0
	k.hooks.clock = func() uint64 {
		if reads++; reads == 1 {
			k.output(0, late)
			return 1000
		}
		return late + 1
	}
	s := k.stream()
	require.Empty(t, ids(t, s), "not due yet, as far as the round knows")
	require.Equal(t, []uint64{late}, ids(t, s))
	require.Zero(t, k.Stats().Total().Corrupt)
}

func TestOrderSaysWhatItMeans(t *testing.T) {
	require.Equal(t, "exact", Order{}.String())
	require.Equal(t, "slack 0s", Slack(0).String())
}

// RunBatches shows where each pass ends: tails are stored then, the watermark has moved on, and the
// stream may be used.
func TestEndOfAPass(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			s := source(k)
			ctx, cancel := context.WithCancelCause(t.Context())
			var got []uint64
			ends := 0
			require.Equal(t, errTest, func() error {
				k.output(0, 1, 2)
				return s.RunBatches(ctx, func(b *Batch) error {
					for ev := range b.Events() {
						got = append(got, id(t, ev))
					}
					if !b.End() {
						return nil
					}
					require.Equal(t, k.w[0].Head(), k.w[0].Tail())
					require.Empty(t, ids(t, s), "it may be used")
					if name == "ordered" {
						require.GreaterOrEqual(t, s.Watermark(), got[len(got)-1])
					}
					if ends++; ends == 3 {
						cancel(errTest)
						return nil
					}
					k.output(0, 10*uint64(ends))
					return nil
				})
			}())
			require.Equal(t, []uint64{1, 2, 10, 20}, got)
			require.Equal(t, 3, ends)

			k.output(0, 30)
			require.NoError(t, s.RunBatches(t.Context(), func(b *Batch) error {
				require.False(t, b.End(), "a pass that the function ends has no end to show")
				return ErrStop
			}))
			k.output(0, 40)
			require.NoError(t, s.RunBatches(t.Context(), func(b *Batch) error {
				if b.End() {
					return ErrStop
				}
				return nil
			}))
		})
	}
}

// Another goroutine closes the stream while f has an event: its rings are free once the pass has
// ended.
func TestCloseOfAStreamFromOutside(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			s := source(k)
			k.output(0, 1, 2)
			has, closed, result := make(chan bool), make(chan bool), make(chan error)
			go func() {
				_, err := Fold(s, 0, func(int, Event) (int, error) {
					close(has)
					<-closed
					return 0, nil
				})
				result <- err
			}()
			<-has
			require.NoError(t, s.Close())
			requireHeld(t, k.all()[0])
			close(closed)
			require.Equal(t, os.ErrClosed, <-result)
			own, err := k.all()[0].Stream()
			require.NoError(t, err)
			if name != "ordered" { // which drops the events it has seen
				require.Equal(t, []uint64{2}, ids(t, own))
			}
			require.Zero(t, k.freed.Load(), "the reader is open")
		})
	}
}

// Without order, several readers are one stream too: it waits for all of them, and they come and
// go.
func TestMergeUnordered(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Unordered()}, a.Reader)
	require.NoError(t, err)
	require.NoError(t, s.Add(b.Reader))
	a.output(0, 3)
	b.output(0, 1, 2)
	require.NoError(t, s.Wait(t.Context()))
	require.NoError(t, s.Flush())
	require.Equal(t, []uint64{3, 1, 2, ^a.clock.Load()}, ids(t, s))
	require.Zero(t, s.Watermark())
	b.output(0, 4)
	require.NoError(t, s.Remove(a.Reader))
	require.NoError(t, s.Wait(t.Context()))
	require.Equal(t, []uint64{4}, ids(t, s))
	a.output(0, 5)
	require.Equal(t, []uint64{5}, ids(t, a.unordered()), "given back")
	require.NoError(t, s.Remove(b.Reader))
	require.Empty(t, ids(t, s))
	_, err = Merge(StreamOptions{Order: Unordered(), FlushEvery: 1e9}, b.Reader)
	require.ErrorContains(t, err, "has no watermark")
}

func TestEffectiveStreamOptions(t *testing.T) {
	const ms = time.Millisecond
	type o = StreamOptions
	half := func(bytes int) Spill { return Spill{Bytes: bytes, Above: 50, Until: 25} }
	for name, c := range map[string]struct {
		in, want StreamOptions
	}{
		"defaults":           {in: o{}, want: o{BarrierInterval: ms, Spill: half(16 << 20)}},
		"slack":              {in: o{Order: Slack(2 * ms)}, want: o{Order: Slack(2 * ms), BarrierInterval: ms, Spill: half(16 << 20)}},
		"no slack":           {in: o{Order: Slack(0)}, want: o{Order: Slack(0), BarrierInterval: ms, Spill: half(16 << 20)}},
		"interval":           {in: o{BarrierInterval: time.Second}, want: o{BarrierInterval: time.Second, Spill: half(16 << 20)}},
		"no interval":        {in: o{BarrierInterval: -time.Second}, want: o{BarrierInterval: -1, Spill: half(16 << 20)}},
		"budget":             {in: o{Spill: Spill{Bytes: 7}}, want: o{BarrierInterval: ms, Spill: half(7)}},
		"no budget":          {in: o{Spill: Spill{Bytes: -7}}, want: o{BarrierInterval: ms, Spill: half(-1)}},
		"until half of that": {in: o{Spill: Spill{Bytes: 1, Above: 81}}, want: o{BarrierInterval: ms, Spill: Spill{1, 81, 40}}},
		"percentages":        {in: o{Spill: Spill{1, 100, 100}}, want: o{BarrierInterval: ms, Spill: Spill{1, 100, 100}}},
		"until, alone":       {in: o{Spill: Spill{Bytes: 1, Until: 50}}, want: o{BarrierInterval: ms, Spill: Spill{1, 50, 50}}},
		"barriers, drop":     {in: o{Barriers: BindMount, DropLate: true}, want: o{Barriers: BindMount, DropLate: true, BarrierInterval: ms, Spill: half(16 << 20)}},
		"flushes":            {in: o{FlushEvery: ms}, want: o{FlushEvery: ms, BarrierInterval: ms, Spill: half(16 << 20)}},
		"slack and flushes": {in: o{Order: Slack(ms), FlushEvery: ms, BarrierInterval: time.Second},
			want: o{Order: Slack(ms), FlushEvery: ms, BarrierInterval: time.Second, Spill: half(16 << 20)}},
	} {
		got, err := c.in.effective([]*Reader{newFake(t, 3, Options{RingBytes: 1 << 16}).Reader})
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		again, err := got.effective([]*Reader{newFake(t, 3, Options{RingBytes: 1 << 16}).Reader})
		require.NoError(t, err, name)
		require.Equal(t, got, again, "%s: what came out can be used again", name)
	}
}

func TestStreamOptionsThatCannotBe(t *testing.T) {
	for want, c := range map[string]struct {
		o       StreamOptions
		noTime  bool
		payload bool
	}{
		"slack is -1ns: must not be negative":                     {o: StreamOptions{Order: Slack(-1)}},
		"Options.NoTime, and so have no times: open them without": {noTime: true},
		"NoTime, and so have no times":                            {noTime: true, o: StreamOptions{Order: Slack(time.Second)}},
		"NestLevels alone, which waits for outputs":               {payload: true, o: StreamOptions{Barriers: NestLevels}},
		"Barriers is 0x30: use only NestLevels, BindMount":        {o: StreamOptions{Barriers: 0x30}},
		"FlushEvery is -1s: must be at least 1ms, or 0 for never": {o: StreamOptions{FlushEvery: -time.Second}},
		"FlushEvery is 999µs: must be at least 1ms, or 0 for nev": {o: StreamOptions{FlushEvery: 999 * time.Microsecond}},
		"FlushEvery is 1ms, and BarrierInterval 2ms: must not be": {o: StreamOptions{FlushEvery: time.Millisecond, BarrierInterval: 2 * time.Millisecond}},
		"Spill.Above is -1 and Spill.Until 0: use percentages":    {o: StreamOptions{Spill: Spill{Above: -1}}},
		"Spill.Above is 101 and Spill.Until 0":                    {o: StreamOptions{Spill: Spill{Above: 101}}},
		"Spill.Above is 0 and Spill.Until -1":                     {o: StreamOptions{Spill: Spill{Until: -1}}},
		"Spill.Above is 0 and Spill.Until 101":                    {o: StreamOptions{Spill: Spill{Until: 101}}},
		"Spill.Until is 51: must not be above Spill.Above, 50":    {o: StreamOptions{Spill: Spill{Until: 51}}},
		"Spill.Until is 31: must not be above Spill.Above, 30":    {o: StreamOptions{Spill: Spill{Above: 30, Until: 31}}},
	} {
		k := newFake(t, 2, Options{NoTime: c.noTime, Time: TimeSource{payload: c.payload, offset: 8}})
		k.programs = &fakePrograms{}
		_, err := k.Stream(c.o)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "perfbuf.Stream: ")
		require.NoError(t, k.unordered().ForEach(never), "nothing is left claimed")
		require.Zero(t, k.programs.opens.Load())
	}
}

func TestOptionsOfAStream(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.open(StreamOptions{Order: Slack(time.Second)})
	require.Equal(t, StreamOptions{
		Order: Slack(time.Second), BarrierInterval: time.Millisecond,
		Spill: Spill{Bytes: 16 << 20, Above: 50, Until: 25},
	}, s.Options())
}

// A stream's barriers wait as its options say, and so do Drain and Close while it is open. Those
// need whole programs.
func TestBarriersArePassedOn(t *testing.T) {
	all := grace.Options{}
	for _, c := range []struct {
		o             StreamOptions
		time          TimeSource
		stream, drain grace.Options
	}{
		{StreamOptions{}, TimeSource{}, all, grace.Options{Programs: true, Once: true}},
		{StreamOptions{}, PayloadTime(0), grace.Options{Programs: true}, grace.Options{Programs: true, Once: true}},
		{StreamOptions{Barriers: MapInMap | Membarrier}, TimeSource{}, grace.Options{Allow: grace.MapInMap | grace.Membarrier},
			grace.Options{Allow: grace.MapInMap | grace.Membarrier, Programs: true, Once: true}},
		{StreamOptions{Barriers: NestLevels}, TimeSource{}, grace.Options{Allow: grace.NestLevels}, grace.Options{Allow: grace.MapInMap | grace.Membarrier, Programs: true, Once: true}},
	} {
		k := newFake(t, 2, Options{CPUs: []int{10, 11}, Time: c.time})
		s, _ := k.stepped(1, c.o)
		require.Equal(t, c.stream, k.programs.options)
		require.NoError(t, s.Drain(t.Context(), never))
		require.Equal(t, c.drain, k.programs.options)
		require.NoError(t, s.Close())
	}
	require.Equal(t, "bind-mount|map-in-map", (BindMount | MapInMap).String())
}
