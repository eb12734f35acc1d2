package perfbuf

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// belled is a fake with a doorbell, and the map's entries of its rings.
type belled struct {
	*fake
	set func(ring int, to kernel.Entry) error // called before an entry is set; nil: nothing happens

	mu    sync.Mutex
	inMap []kernel.Entry
	sets  int // calls
}

const (
	noEntry    = kernel.Empty
	plainEntry = kernel.Plain
	bellEntry  = kernel.Bell
)

func newBelled(t testing.TB, n int) *belled {
	return withDoorbell(newFake(t, n, Options{}))
}

// withDoorbell gives a fake one, before it is used.
func withDoorbell(f *fake) *belled {
	k := &belled{fake: f}
	for range f.w {
		k.inMap = append(k.inMap, plainEntry)
	}
	opts := k.Reader.opts
	opts.Wakeup = Wakeup{PollInterval: bellPollInterval}
	k.hooks.set = k.store
	k.Reader = newReader(k.hooks, opts)
	k.in.Entries.Burst = 0
	return k
}

// clocked lets the clock be the bubble's.
func (k *belled) clocked() (clock func() uint64) {
	start := time.Now()
	k.hooks.clock = func() uint64 { return uint64(time.Hour + time.Since(start)) }
	return k.hooks.clock
}

func (k *belled) store(ring int, to kernel.Entry) error {
	k.mu.Lock()
	k.sets++
	k.mu.Unlock()
	if k.set != nil {
		if err := k.set(ring, to); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inMap[ring] = to
	return nil
}

// entriesNow returns the map's entries, and how often they were set.
func (k *belled) entriesNow() ([]kernel.Entry, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]kernel.Entry(nil), k.inMap...), k.sets
}

func (k *belled) requireEntries(want ...kernel.Entry) {
	k.t.Helper()
	got, _ := k.entriesNow()
	require.Equal(k.t, want, got)
}

// emit is an output of a program that looks the entry up.
func (k *belled) emit(ring int, time uint64) error {
	entries, _ := k.entriesNow()
	if entries[ring] == noEntry {
		return syscall.ENOENT
	}
	k.output(ring, time)
	if entries[ring] == bellEntry {
		k.poll.wake()
	}
	return nil
}

// armed lets a Wait come to rest behind its last look.
func (k *belled) armed() (done <-chan error) {
	k.t.Helper()
	done = waitInBackground(func() error { return k.unordered().Wait(context.Background()) })
	time.Sleep(time.Minute)
	require.Equal(k.t, len(k.w), k.Stats().Doorbell.Armed)
	return done
}

// With nothing to read all rings are armed at once. Looks get rarer for more than a second, and
// then cease.
func TestDoorbellWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		start := time.Now()
		var polls []time.Duration
		k.hooks.poll = &hookedPoller{k.poll, func() { polls = append(polls, time.Since(start)) }}
		done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		synctest.Wait()
		k.requireEntries(bellEntry, bellEntry)
		require.Equal(t, DoorbellStats{Arms: 2, Armed: 2, Polls: 1}, k.Stats().Doorbell)

		time.Sleep(1000 * time.Hour)
		blocked(t, done)
		// A look that is due from the start, and the wait for the next
		want := []time.Duration{0, 0}
		for at, pause := bellPollInterval, 4*bellPollInterval; ; pause *= 4 {
			want = append(want, at)
			if pause > engine.LastLook {
				break
			}
			at += pause
		}
		require.Equal(t, want, polls)
		require.GreaterOrEqual(t, polls[len(polls)-1], time.Second)
		require.Equal(t, DoorbellStats{Arms: 2, Armed: 2, Polls: uint64(len(want) - 1)}, k.Stats().Doorbell)
		_, sets := k.entriesNow()
		require.Equal(t, 2, sets)

		before := time.Now()
		require.NoError(t, k.emit(1, 7))
		require.NoError(t, <-done)
		require.Equal(t, before, time.Now())
		st := k.Stats()
		require.Equal(t, []uint64{1, 0, 0}, []uint64{st.Wakes, st.SpuriousWakes, st.TimerWakes})

		k.requireEntries(bellEntry, bellEntry)
		require.Equal(t, []uint64{7}, ids(t, k.unordered()))
		k.requireEntries(bellEntry, plainEntry) // only the ring that was read is disarmed
		require.Equal(t, DoorbellStats{Arms: 2, Disarms: 1, Armed: 1, Polls: uint64(len(want) - 1)}, k.Stats().Doorbell)
		k.Close()
	})
}

// What is there already needs no bell.
func TestDoorbellFindsWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		k.output(0, 1)
		start := time.Now()
		require.NoError(t, k.unordered().Wait(t.Context()))
		require.Equal(t, start, time.Now())
		k.requireEntries(plainEntry, bellEntry)
		require.Equal(t, []uint64{1}, ids(t, k.unordered()))
	})
}

// While events flow, wakeups do not count, and the poll interval sets the pace, unless a ring fills
// up.
func TestDoorbellPollsWhileEventsFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		done := k.armed()
		require.NoError(t, k.emit(0, 1))
		require.NoError(t, <-done)
		require.Equal(t, []uint64{1}, ids(t, k.unordered()))

		next := uint64(2)
		var got []uint64
		want := func(d time.Duration, meanwhile func()) {
			start := time.Now()
			done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
			meanwhile()
			require.NoError(t, <-done)
			require.Equal(t, d, time.Since(start))
			got = append(got, ids(t, k.unordered())...)
		}
		for range 20 {
			want(bellPollInterval, func() {
				for range 5 {
					time.Sleep(bellPollInterval / 10)
					k.output(0, next)
					k.poll.wake() // of a program that had found the bell
					next++
				}
			})
		}
		k.requireEntries(plainEntry, bellEntry) // the other is not concerned
		require.Equal(t, uint64(20), k.Stats().TimerWakes)
		want(bellPollInterval/4, func() {
			time.Sleep(bellPollInterval / 4)
			for range fakeRingSize / 4 / recordSize {
				k.output(0, next)
				next++
			}
			k.poll.wake()
		})
		want(bellPollInterval/2, func() { // the armed ring
			time.Sleep(bellPollInterval / 2)
			require.NoError(t, k.emit(1, next))
			next++
		})
		require.Equal(t, uint64(20), k.Stats().TimerWakes)
		require.Equal(t, seq(2, next-1), got)
		require.Equal(t, uint64(2), k.Stats().Doorbell.Disarms)
	})
}

// A ring is armed again when it has been quiet for some looks, the others stay as they are.
func TestDoorbellArmsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 3)
		done := k.armed()
		for round := range uint64(3) {
			require.NoError(t, k.emit(1, 10*round))
			require.NoError(t, <-done)
			start := time.Now()
			require.Equal(t, []uint64{10 * round}, ids(t, k.unordered()))
			polls := k.Stats().Doorbell.Polls

			ctx, cancel := context.WithCancel(t.Context())
			done = waitInBackground(func() error { return k.unordered().Wait(ctx) })
			time.Sleep(engine.QuietLooks*bellPollInterval - bellPollInterval/2)
			k.requireEntries(bellEntry, plainEntry, bellEntry)
			cancel() // the count of looks goes on in the next wait
			require.Equal(t, context.Canceled, <-done)
			done = waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
			time.Sleep(time.Until(start.Add((engine.QuietLooks + 2) * bellPollInterval)))
			synctest.Wait()
			k.requireEntries(bellEntry, bellEntry, bellEntry)
			require.Equal(t, polls+engine.QuietLooks+2, k.Stats().Doorbell.Polls)
			time.Sleep(time.Hour)
			st := k.Stats().Doorbell
			require.Equal(t, []uint64{4 + round, 1 + round}, []uint64{st.Arms, st.Disarms})
			blocked(t, done)
		}
		k.Close()
		require.Equal(t, os.ErrClosed, <-done)
	})
}

// What is output around the moment of arming is found at once, though it wakes nobody.
func TestDoorbellOutputWhileArming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for ring := range 2 {
			k := newBelled(t, 2)
			k.set = func(i int, to kernel.Entry) error {
				if to == bellEntry && i == ring {
					k.output(ring, 1)
				}
				return nil
			}
			start := time.Now()
			require.NoError(t, k.unordered().Wait(t.Context()))
			require.Equal(t, start, time.Now())
			k.requireEntries(bellEntry, bellEntry)
			require.Equal(t, []uint64{1}, ids(t, k.unordered()))
			require.Equal(t, uint64(1), k.Stats().TimerWakes)
		}
	})
}

// A program that had found the old entry outputs after the look: that rings no bell, and is found
// by a later look.
func TestDoorbellFindsWhatRangNoBell(t *testing.T) {
	for _, after := range []time.Duration{bellPollInterval / 2, 10 * time.Millisecond, 500 * time.Millisecond, 990 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			k := newBelled(t, 2)
			done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
			time.Sleep(after)
			k.output(1, 1)
			blocked(t, done)
			start := time.Now()
			require.NoError(t, <-done)
			require.LessOrEqual(t, time.Since(start), 4*after+bellPollInterval)
			require.Equal(t, []uint64{1}, ids(t, k.unordered()))
			k.requireEntries(bellEntry, plainEntry)
		})
	}
}

// Without leave to change the map, the reader polls: it says why, and misses nothing.
func TestDoorbellCannotArm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		k.set = func(int, kernel.Entry) error { return errTest }
		for i := range uint64(5) {
			done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
			time.Sleep(time.Second + bellPollInterval/3)
			blocked(t, done)
			start := time.Now()
			require.NoError(t, k.emit(int(i%2), i))
			require.NoError(t, <-done)
			require.Less(t, time.Since(start), bellPollInterval)
			require.Equal(t, []uint64{i}, ids(t, k.unordered()))
		}
		st := k.Stats().Doorbell
		require.ErrorIs(t, st.Err, errTest)
		require.Zero(t, st.Armed)
		require.Zero(t, st.Arms)
		_, sets := k.entriesNow()
		require.Equal(t, 1, sets, "not tried over and over")
	})
}

// A ring that cannot be disarmed goes on to wake for each event.
func TestDoorbellCannotDisarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 1)
		done := k.armed()
		k.set = func(int, kernel.Entry) error { return errTest }
		for i := range uint64(5) {
			require.NoError(t, k.emit(0, i))
			require.NoError(t, <-done)
			require.Equal(t, []uint64{i}, ids(t, k.unordered()))
			st := k.Stats().Doorbell
			require.ErrorIs(t, st.Err, errTest)
			require.Equal(t, DoorbellStats{Arms: 1, Armed: 1, Polls: st.Polls, Err: st.Err}, st)
			done = waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
			time.Sleep(time.Hour)
			blocked(t, done)
		}
		k.Close()
	})
}

// Once it is closed, a reader leaves the map alone.
func TestDoorbellAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		done := k.armed()
		require.NoError(t, k.emit(0, 1))
		require.NoError(t, k.emit(1, 2))
		require.NoError(t, <-done)
		sets := 0
		require.Equal(t, os.ErrClosed, k.unordered().ForEach(func(Event) error {
			_, sets = k.entriesNow()
			return k.Close()
		}))
		require.Equal(t, os.ErrClosed, k.unordered().Wait(t.Context()))
		require.Equal(t, os.ErrClosed, k.Pause())
		require.Equal(t, os.ErrClosed, k.Resume())
		for i := range 2 { // of a pass or a wait that is still under way
			k.in.Entries.Arm(i)
			k.in.Entries.Disarm(i)
		}
		require.NoError(t, k.in.Entries.Pause())
		_, after := k.entriesNow()
		require.Equal(t, sets, after)
	})
}

// A stream with little slack looks at a busy ring more often than the poll interval, while it holds
// nothing.
func TestDoorbellOfAStreamThatHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 1)
		clock := k.clocked()
		s := k.open(StreamOptions{Order: Slack(time.Millisecond)})
		read := func() (at uint64) {
			require.NoError(t, s.Wait(t.Context()))
			require.Len(t, ids(t, s), 1)
			return clock()
		}
		require.NoError(t, k.emit(0, clock()))
		read() // and the ring is disarmed
		output := clock() + uint64(200*time.Microsecond)
		time.AfterFunc(200*time.Microsecond, func() { require.NoError(t, k.emit(0, output)) })
		require.LessOrEqual(t, read()-output, uint64(2*time.Millisecond+500*time.Microsecond), "and not the poll interval")
		k.requireEntries(plainEntry)
		require.Zero(t, k.Stats().Wakes)
	})
}

// Streams of both modes, from idle to busy and back: everything comes in order and in time, and
// when nothing comes nothing polls.
func TestDoorbellOfAStream(t *testing.T) {
	for name, o := range map[string]StreamOptions{"slack": {Order: Slack(2 * time.Millisecond)}, "exact": {}} {
		runInBubble(t, name, func(t *testing.T) {
			k := newBelled(t, 3)
			clock := k.clocked()
			k.programs = &fakePrograms{wait: func() error { time.Sleep(period); return nil }}
			s := k.open(o)
			var got, want []uint64
			done := waitInBackground(func() error {
				return s.Run(t.Context(), func(ev Event) error {
					require.False(t, ev.Late())
					require.LessOrEqual(t, clock()-ev.Time(), uint64(3*period))
					got = append(got, id(t, ev))
					return nil
				})
			})
			for round := range 10 {
				time.Sleep(time.Hour)
				k.requireEntries(bellEntry, bellEntry, bellEntry)
				st, waits := k.Stats(), k.poll.waits.Load()
				time.Sleep(time.Hour)
				require.Equal(t, st, k.Stats())
				require.Equal(t, waits, k.poll.waits.Load())
				want = append(want, clock())
				require.NoError(t, k.emit(round%3, clock()))
				synctest.Wait()
				entries, _ := k.entriesNow()
				require.Equal(t, plainEntry, entries[round%3], "seen, and disarmed")
				require.Equal(t, 2, k.Stats().Doorbell.Armed)
				for i := range 100 {
					time.Sleep(time.Duration(i%7) * time.Millisecond / 4)
					if want[len(want)-1] != clock() {
						want = append(want, clock())
						require.NoError(t, k.emit(i*round%3, clock()))
					}
				}
			}
			time.Sleep(time.Hour)
			k.Close()
			require.Equal(t, os.ErrClosed, <-done)
			require.Equal(t, want, got)
			require.Zero(t, k.Stats().Late)
		})
	}
}

// A pass disarms a ring while looks have become rare. What comes then rings no bell, and is seen
// after the poll interval all the same.
func TestPassDisarmsWhileLooksAreRare(t *testing.T) {
	// Until all rings are armed, and the next look is more than a second away
	idle := func(t *testing.T, k *belled) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, k.unordered().Wait(ctx), context.DeadlineExceeded)
		k.requireEntries(bellEntry, bellEntry)
	}
	runInBubble(t, "before the Wait", func(t *testing.T) {
		k := newBelled(t, 2)
		idle(t, k)
		require.NoError(t, k.emit(1, 1))
		require.Equal(t, []uint64{1}, ids(t, k.unordered()))
		require.NoError(t, k.emit(1, 2))
		start := time.Now()
		require.NoError(t, k.unordered().Wait(t.Context()))
		require.LessOrEqual(t, time.Since(start), bellPollInterval)
	})
}
