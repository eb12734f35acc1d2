package perfbuf

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// After Close, Samples + Dropped + Lost is how many outputs the rings took or were too full for, in
// every state: exactly if the kernel counts losses, else as far as records reported them.
func TestCountsAfterClose(t *testing.T) {
	// Each leaves ring 0 with some outputs read, some not, and has closed the reader.
	states := map[string]func(k *fake, more func()){
		"unread":     func(k *fake, more func()) { more(); k.Close() },
		"read":       func(k *fake, more func()) { more(); ids(k.t, k.unordered()); k.Close() },
		"twice":      func(k *fake, more func()) { more(); ids(k.t, k.unordered()); more(); k.Close(); k.Close() },
		"in a pass":  func(k *fake, more func()) { closeWithin(k, k.unordered(), more) },
		"in a ring":  func(k *fake, more func()) { closeWithin(k, k.ring(0), more) },
		"in a round": func(k *fake, more func()) { closeWithin(k, k.stream(), more) },
		"in a round of copies": func(k *fake, more func()) {
			s := k.slow(Spill{Bytes: 32 * block})
			for range 5 {
				more()
				require.Empty(k.t, ids(k.t, s))
			}
			require.Positive(k.t, k.Stats().SpillUsed)
			k.clock.Add(uint64(2 * time.Hour))
			closeWithin(k, s, more)
		},
		"stream with held and copied, seen and unseen": func(k *fake, more func()) {
			s := k.slow(Spill{Bytes: 32 * block})
			for range 5 {
				more()
				require.Empty(k.t, ids(k.t, s))
			}
			more()
			k.Close()
			s.Close()
		},
		"stream with late ones": func(k *fake, more func()) {
			s, err := k.Stream(StreamOptions{Order: Slack(0), DropLate: true})
			require.NoError(k.t, err)
			k.output(1, k.clock.Load()-50)
			for range 3 {
				more()
				ids(k.t, s)
			}
			require.Positive(k.t, k.Stats().Total().Dropped)
			more()
			k.Close()
		},
		"stream closed with held and copied": func(k *fake, more func()) {
			s := k.slow(Spill{Bytes: 32 * block})
			for range 5 {
				more()
				require.Empty(k.t, ids(k.t, s))
			}
			more()
			s.Close()
			k.Close()
		},
		"streams and readers in turn": func(k *fake, more func()) {
			for range 3 {
				s := k.slow(Spill{Bytes: 32 * block})
				more()
				require.Empty(k.t, ids(k.t, s))
				more()
				require.NoError(k.t, s.ForEachPending(func(Event) error { return ErrStop }))
				more()
				s.Close()
				require.NoError(k.t, k.unordered().ForEach(func(Event) error { return ErrStop }))
				k.release()
				more()
			}
			k.Close()
		},
		"stream closed inside, and then the reader": func(k *fake, more func()) {
			s := k.stream()
			more()
			require.Equal(k.t, os.ErrClosed, s.ForEach(func(Event) error { s.Close(); more(); return nil }))
			k.Close()
		},
		"stream and reader closed inside": func(k *fake, more func()) {
			s := k.stream()
			more()
			require.Equal(k.t, os.ErrClosed, s.ForEach(func(Event) error { s.Close(); k.Close(); return nil }))
		},
		"flushed": func(k *fake, more func()) {
			s := k.slow(Spill{})
			more()
			require.NoError(k.t, s.ForEachPending(func(Event) error { return nil }))
			k.Close()
		},
	}
	for name, run := range states {
		for _, counts := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, kernel counts: %v", name, counts), func(t *testing.T) {
				k := newFakeAt(t, 2, fakeRingSize-40, Options{})
				k.counts = counts
				attempted, unreported := uint64(0), uint64(0)
				output := func() {
					if attempted++; k.w[0].Output(k.clock.Load()-100+attempted%90, ringtest.Payload(attempted, 12)) != nil {
						unreported++
					} else {
						unreported = 0
					}
				}
				more := func() {
					for range 133 {
						output()
					}
				}
				// Programs that were running when Close took the rings away finish during its grace
				// period.
				k.programs = &fakePrograms{opened: func() error {
					require.EqualValues(t, 1, k.unhooked.Load(), "outputs would go on")
					require.Zero(t, k.freed.Load())
					for range 3 {
						output()
					}
					return nil
				}}
				run(k, more)
				require.EqualValues(t, 1, k.freed.Load())
				require.EqualValues(t, 1, k.programs.opens.Load())
				require.EqualValues(t, 1, k.programs.closes.Load())
				if !counts {
					attempted -= unreported
				}
				k.account(t, 0, attempted)
				require.True(t, !counts || k.Stats().Rings[0].Lost > 0)
			})
		}
	}
}

func closeWithin(k *fake, src *Stream, more func()) {
	more()
	n := 0
	require.Equal(k.t, os.ErrClosed, src.ForEach(func(Event) error {
		if n++; n == 50 {
			k.Close()
			require.Zero(k.t, k.programs.opens.Load(), "Close waits while an event is in use")
		}
		return nil
	}))
}

// Without a way to wait the counts are as of Close.
func TestCountsAfterCloseWithoutAProvider(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.counts = true
	n := k.overflow(0, 1, 5)
	require.NoError(t, k.Close())
	k.account(t, 0, uint64(n)+5)
}

// A kernel that has stopped counting, for its CPU is gone, does not make reported losses count
// twice.
func TestCountsIfTheKernelStopsCounting(t *testing.T) {
	for name, closed := range map[string]bool{"stream open": false, "stream closed": true} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			k.counts = true
			s := k.stream()
			n := k.overflow(0, 1000, 5)
			require.NoError(t, s.ForEachPending(func(Event) error { return nil }))
			require.EqualValues(t, 5, k.Stats().Total().Lost)
			k.counts = false
			if closed {
				require.NoError(t, s.Close())
			}
			k.output(0, 5000) // reports the 5
			require.NoError(t, k.Close())
			k.account(t, 0, uint64(n)+5+1)
		})
	}
}

// Stats do not count damage as outputs, but do count outputs behind it.
func TestCountsAfterCloseBehindDamage(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.output(0, 1, 2)
	k.w[0].PutHeader(ringtest.TypeThrottle, 16, 16)
	k.output(0, 3)
	require.NoError(t, k.Close())
	require.EqualValues(t, 3, k.Stats().Total().Dropped)
}

// Close may come between the pass's last look and the function's call: a sample counted as
// delivered is still delivered.
func TestCloseJustBeforeTheFunction(t *testing.T) {
	for name, output := range map[string]func(k *fake){
		"a batch":             func(k *fake) { k.output(0, 1, 2, 3) },
		"a sample that wraps": func(k *fake) { k.output(0, seq(1, 127)...); ids(k.t, k.unordered()); k.output(0, 2000) },
		"a loss": func(k *fake) {
			k.fill(0, 1)
			ids(k.t, k.unordered())
			k.output(0, 2000)
		},
		"memory that is broken": func(k *fake) { k.w[0].PutHeader(ringtest.TypeSample, 0, 80) },
	} {
		for kind, source := range sourceKinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				k := newFakeAt(t, 1, 16, Options{}) // the ring's edge is in the middle of a sample
				output(k)
				k.release()
				before := k.Stats().Rings[0]
				src := source(k)
				p := &src.batch
				var over atomic.Bool
				over.Store(true)
				own := p.pass.Halt
				p.pass.Halt = &over // next looks at the source's own
				var seen RingStats
				err := src.deliver(context.Background(), src.in.Begin(), func(ev Event) error {
					switch ev.Kind() {
					case KindSample:
						seen.Samples++
					case KindLost:
						seen.LostRecords++
					case KindCorrupt:
						seen.Corrupt++
					}
					return nil
				})
				if err != nil {
					require.Equal(t, os.ErrClosed, err)
				}
				p.pass.Halt = own
				s := k.Stats().Rings[0]
				require.Equal(t, seen, RingStats{
					Samples: s.Samples - before.Samples, LostRecords: s.LostRecords - before.LostRecords, Corrupt: s.Corrupt - before.Corrupt,
				})
				require.NotZero(t, seen)
			})
		}
	}
}

func TestDone(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.output(0, 1, 2)
	require.NoError(t, k.unordered().ForEach(func(Event) error {
		require.NoError(t, k.Close())
		select {
		case <-k.Done():
			require.Fail(t, "the function has an event")
		default:
		}
		return ErrStop
	}))
	<-k.Done()
	require.EqualValues(t, 1, k.freed.Load())
	require.EqualValues(t, 1, k.Stats().Rings[0].Dropped)
}
