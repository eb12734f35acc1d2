package perfbuf

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// A stream sleeps until the marker's turn has come, also if its wakeup policy waits for the poll
// interval.
func TestFlushWhileAStreamPolls(t *testing.T) {
	for name, wakeup := range map[string]Wakeup{
		"bytes":  {Bytes: 8 * recordSize, PollInterval: time.Minute},
		"events": {Events: 8, PollInterval: time.Minute},
		"each":   {Events: 1},
	} {
		for held := range uint64(2) {
			runInBubble(t, fmt.Sprintf("%s, %d held", name, held), func(t *testing.T) {
				const slack = 2 * time.Second
				k, s, clock := timed(t, 2, Options{Wakeup: wakeup}, slack)
				done := waitInBackground(func() error { return s.Wait(t.Context()) })
				for range held {
					k.output(1, clock())
				}
				require.NoError(t, s.Flush())
				at := clock()
				require.NoError(t, <-done)
				require.Equal(t, slack, time.Duration(clock()-at))
				require.Len(t, copies(t, s), int(held)+1)
			})
		}
	}
}

// latePoller comes to its wait when the deadline is over, and asks nothing then, as Go's poller
// does.
type latePoller struct {
	*fakePoller
	left int // waits until it fails
}

func (p *latePoller) Wait(deadline time.Time, ready func(woken bool) bool) error {
	if p.left--; p.left < 0 {
		return errTest
	}
	time.Sleep(time.Second)
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		return os.ErrDeadlineExceeded
	}
	return p.fakePoller.Wait(deadline, ready)
}

// A Flush ends a Wait that looks so often that its deadline is over before the poller has it.
func TestFlushWhileDeadlinesAreOver(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) *fake{
		"bytes": func(t *testing.T) *fake {
			return newFake(t, 2, Options{Wakeup: Wakeup{Bytes: 8 * recordSize, PollInterval: time.Millisecond}})
		},
		"doorbell": func(t *testing.T) *fake { return newBelled(t, 2).fake },
	} {
		runInBubble(t, name, func(t *testing.T) {
			k := make(t)
			k.hooks.poll = &latePoller{k.poll, 100}
			done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
			time.Sleep(10*time.Second + time.Millisecond)
			require.NoError(t, k.unordered().Flush())
			at := time.Now()
			require.NoError(t, <-done)
			require.Less(t, time.Since(at), 2*time.Second)
			require.Len(t, copies(t, k.unordered()), 1)
		})
	}
}

// A Flush ends the Wait of a ring's stream, whether it waited then or came later, and no other's. A
// pass answers it, also one that was under way.
func TestFlushEndsRingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 3, Options{Wakeup: Wakeup{Bytes: 8 * recordSize, PollInterval: time.Hour}})
		var rings []*Stream
		for i := range k.all() {
			rings = append(rings, k.ring(i))
		}
		wait := func(i int) <-chan error {
			return waitInBackground(func() error { return rings[i].Wait(t.Context()) })
		}
		for round := range uint64(3) {
			start := time.Now()
			waiting, other := wait(0), wait(1)
			k.output(0, 10+round)
			k.output(1, 20+round)
			k.output(2, 30+round)
			blocked(t, waiting)
			require.NoError(t, rings[0].Flush())
			require.NoError(t, rings[2].Flush())
			require.NoError(t, <-waiting)
			require.NoError(t, rings[2].Wait(t.Context()), "it came later")
			require.Equal(t, []uint64{10 + round, ^k.clock.Load()}, ids(t, rings[0]))
			require.NoError(t, rings[2].ForEach(func(ev Event) error {
				k.output(2, 40+round) // this pass does not see it
				if ev.Kind() == KindFlushed {
					return ErrStop
				}
				return rings[2].Flush()
			}))
			require.NoError(t, rings[2].Wait(t.Context()))
			require.Equal(t, start, time.Now())
			require.NotEmpty(t, ids(t, rings[2]))
			blocked(t, other)
			require.Less(t, k.poll.spun, 20)

			// What comes later waits for the poll interval.
			k.output(0, 50+round)
			again := wait(0)
			blocked(t, again)
			require.NoError(t, <-again)
			require.NoError(t, <-other)
			require.Equal(t, time.Hour, time.Since(start))
			for _, ring := range rings {
				ids(t, ring)
			}
			k.alone(t)
		}
	})
}

// What is copied out of a fakeRingSize ring takes a block of that size each time.
const block = fakeRingSize

// slow is a stream in which nothing is due before the clock has moved by an hour.
func (k *fake) slow(sp Spill) *Stream {
	k.t.Helper()
	s, err := k.Stream(StreamOptions{Order: Slack(time.Hour), Spill: sp})
	require.NoError(k.t, err)
	return s
}

// Events that wait for longer than the rings can hold them are all kept, in any order, and come in
// the order of their times, then rings, then outputs.
func TestSpillKeepsEverything(t *testing.T) {
	type event struct{ time, id uint64 }
	for seed := range uint64(5) {
		const rings, steps, budget = 3, 12, 36 * block
		k := newFakeAt(t, rings, fakeRingSize-24, Options{})
		s := k.slow(Spill{Bytes: budget})
		rnd := rand.New(rand.NewPCG(seed, 0))
		var want []event
		written := make([]uint64, rings)
		for step := range uint64(steps) {
			for i := range rings {
				for range 60 + rnd.IntN(30) {
					ev := event{1<<40 + step*1000 + rnd.Uint64N(1500), uint64(i)<<32 | written[i]}
					require.NoError(t, k.w[i].Output(ev.time, ringtest.Payload(ev.id, 12+rnd.IntN(8))))
					written[i]++
					want = append(want, ev)
				}
			}
			require.Empty(t, ids(t, s))
			require.LessOrEqual(t, k.Stats().SpillUsed, uint64(budget))
		}
		slices.SortFunc(want, func(a, b event) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id)) })
		st := k.Stats()
		require.Greater(t, st.SpilledBytes, uint64(steps/2*rings*fakeRingSize/2))
		require.Positive(t, st.SpillUsed)
		require.Zero(t, st.SpillRefused)

		k.clock.Add(uint64(2 * time.Hour))
		var got []event
		require.NoError(t, s.ForEach(func(ev Event) error {
			require.False(t, ev.Late())
			require.Equal(t, KindSample, ev.Kind())
			require.Equal(t, ev.CPU()-firstCPU, int(id(t, ev)>>32))
			got = append(got, event{ev.Time(), id(t, ev)})
			return nil
		}))
		require.Equal(t, want, got)
		require.Zero(t, k.Stats().SpillUsed, "all is given back")
		require.NoError(t, k.Close())
		for i := range rings {
			k.account(t, i, written[i])
		}
	}
}

// Copies are made only of rings that are fuller than asked for, and until they are as empty.
func TestSpillThresholds(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.slow(Spill{Above: 75})
	base := k.clock.Load()
	k.output(0, seq(base, base+96)...) // 75.8 %
	k.output(1, seq(base, base+95)...) // 75 %
	require.Empty(t, ids(t, s))
	require.Zero(t, k.Stats().SpilledBytes, "percentages are whole")
	k.output(0, base+97)
	require.Empty(t, ids(t, s))
	require.EqualValues(t, 98*recordSize, k.Stats().SpilledBytes)
	require.EqualValues(t, block, k.Stats().SpillUsed)
	require.Equal(t, k.w[0].Head(), k.w[0].Tail())
	require.Zero(t, k.w[1].Tail())
}

// When the budget is used up the kernel loses events, and the stream reports where and how many.
// Delivered events make room again.
func TestSpillBudget(t *testing.T) {
	k := newFake(t, 1, Options{})
	s := k.slow(Spill{Bytes: 2*block - 1})
	base := k.clock.Load()
	n := uint64(k.fill(0, base))
	require.Empty(t, ids(t, s))
	require.EqualValues(t, n*recordSize, k.Stats().SpilledBytes)
	require.Zero(t, k.Stats().SpillRefused)
	m := uint64(k.fill(0, base+1000)) // and one lost, as with the first
	require.Empty(t, ids(t, s))
	require.EqualValues(t, 1, k.Stats().SpillRefused)
	require.EqualValues(t, block, k.Stats().SpillUsed)
	for range 4 {
		require.Error(t, k.w[0].Output(base+1200, ringtest.Payload(1, 12)))
	}

	k.clock.Store(base + n - 1 + uint64(time.Hour))
	require.Equal(t, seq(base, base+n-1), ids(t, s), "those that were copied out")
	require.Zero(t, k.Stats().SpillUsed)
	require.Empty(t, ids(t, s)) // spills
	require.EqualValues(t, block, k.Stats().SpillUsed)
	k.output(0, base+2000)
	k.clock.Add(uint64(time.Hour))
	recs := copies(t, s)
	require.Len(t, recs, int(m)+3)
	require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Time: base + 1000, LostAfter: base + n - 1, Lost: 1}, recs[0])
	last := recs[len(recs)-2]
	require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Time: base + 2000, LostAfter: base + 1000 + m - 1, Lost: 5}, last)
	require.NoError(t, k.Close())
	k.account(t, 0, n+m+1+6)
}

// Without a budget, nothing is copied.
func TestNoSpill(t *testing.T) {
	k := newFake(t, 1, Options{})
	s := k.slow(Spill{Bytes: -1})
	n := uint64(k.fill(0, k.clock.Load()))
	require.Empty(t, ids(t, s))
	st := k.Stats()
	require.Zero(t, st.SpilledBytes+st.SpillUsed+st.SpillRefused)
	require.Zero(t, k.w[0].Tail())
	require.NoError(t, s.Close())
	require.EqualValues(t, n, k.Stats().Total().Dropped)
}

// A stream that is closed gives the memory of its copies up.
func TestCloseOfAStreamWithCopies(t *testing.T) {
	k := newFake(t, 1, Options{})
	s := k.slow(Spill{})
	n := uint64(k.fill(0, k.clock.Load()))
	require.Empty(t, ids(t, s))
	require.Positive(t, k.Stats().SpillUsed)
	require.NoError(t, s.Close())
	require.Zero(t, k.Stats().SpillUsed)
	require.Equal(t, n, k.Stats().Total().Dropped)
}

// While a barrier hangs, a Wait keeps rings from filling up.
func TestWaitRelievesRingsWhileABarrierHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := exact(t, 2, Options{}, StreamOptions{Spill: Spill{Bytes: 64 * block}})
		hang := make(chan error)
		k.programs.wait = func() error { return <-hang }
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		var want []uint64
		for i := range 2000 { // ten times the rings' capacity
			want = append(want, clock())
			k.output(i%2, clock())
			k.poll.wake()
			// Ever faster: in the end a ring would be full before a look at it every 10 ms.
			time.Sleep([]time.Duration{1000, 100, 80, 60, 35}[i/400] * time.Microsecond)
		}
		blocked(t, done)
		require.Greater(t, k.Stats().SpilledBytes, uint64(9*2*fakeRingSize/2))
		require.Zero(t, k.Stats().SpillRefused)
		close(hang)
		require.NoError(t, <-done)
		got := ids(t, s)
		for len(got) < len(want) {
			require.NoError(t, s.Wait(t.Context()))
			got = append(got, ids(t, s)...)
		}
		require.Equal(t, want, got)
		require.Zero(t, k.Stats().Total().Lost)
		require.NoError(t, s.Close())
	})
}

// In one long round, rings that fill up while its events are with the user are relieved too.
func TestLongRoundRelievesRings(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.slow(Spill{Bytes: 64 * block})
	base := k.clock.Load()
	const batch, batches = 100, 40
	for i := range uint64(batches) {
		k.output(0, seq(base+i*batch, base+i*batch+batch-1)...)
		require.Empty(t, ids(t, s))
	}
	k.clock.Add(uint64(2 * time.Hour))
	n, more := uint64(0), k.clock.Load()
	require.NoError(t, s.ForEach(func(ev Event) error {
		require.Equal(t, base+n, id(t, ev))
		if n++; n%20 == 0 { // a ring in 2500 events
			k.output(1, more)
			more++
		}
		return nil
	}))
	require.EqualValues(t, batch*batches, n)
	require.Greater(t, k.w[1].Tail(), uint64(0), "ring 1 was relieved within the round")
	k.clock.Add(uint64(2 * time.Hour))
	require.Equal(t, seq(more-batch*batches/20, more-1), ids(t, s))
	require.Zero(t, k.Stats().Total().Lost)
}
