package perfbuf

import (
	"testing"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// A drain that begins with a ring at least 6/8 full gives it back by eighths.
func TestNearlyFullRingIsGivenBackOnTheWay(t *testing.T) {
	const eighth = fakeRingSize / 8
	for name, source := range map[string]func(*fake) *Stream{"ring": sourceKinds["ring"], "unordered": sourceKinds["unordered"]} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				records uint64
				early   bool
			}{{96, true}, {95, false}, {127, true}, {16, false}} {
				k := newFakeAt(t, 1, 1<<32-2048, Options{})
				src, start := source(k), uint64(1<<32-2048)
				k.output(0, seq(1, c.records)...)
				read := uint64(0)
				require.NoError(t, src.ForEach(func(ev Event) error {
					want := uint64(0)
					if c.early {
						want = read / eighth * eighth
					}
					require.Equal(t, want, k.w[0].Tail()-start, "%d records, %d bytes read", c.records, read)
					read += recordSize
					return nil
				}))
				require.Equal(t, k.w[0].Head(), k.w[0].Tail())
				commits := uint64(1)
				if c.early {
					commits = (c.records + 15) / 16
				}
				require.Equal(t, commits, k.Stats().Rings[0].TailStores)
			}
		})
	}
}

// In a full ring f's own outputs fail until the first eighth is given back, and
// then go into its room without touching what f has.
func TestOutputIntoFreedRoom(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			src := source(k)
			full := k.fill(0, 1)
			require.Equal(t, 127, full)
			var got, more []uint64
			require.NoError(t, src.ForEach(func(ev Event) error {
				next := 1000 + uint64(len(got))
				if err := k.w[0].Output(next, ringtest.Payload(next, 12)); err == nil {
					more = append(more, next)
				}
				got = append(got, id(t, ev)) // after the output
				return nil
			}))
			require.Equal(t, seq(1, 127), got)
			require.Greater(t, len(more), 90)
			require.Equal(t, uint64(1016), more[0], "when an eighth, 16 records, was given back")

			var again []uint64
			lost := uint64(0)
			require.NoError(t, src.ForEach(func(ev Event) error {
				if lost += ev.Lost(); ev.Kind() == KindSample {
					again = append(again, id(t, ev))
				}
				return nil
			}))
			require.Equal(t, more, again)
			require.Equal(t, uint64(127+1), uint64(len(more))+lost+k.w[0].Pending())
		})
	}
}

func TestHighWaterAndUsed(t *testing.T) {
	k := newFake(t, 2, Options{})
	k.output(1, 1, 2, 3)
	require.Equal(t, 3*recordSize, k.all()[1].Used())
	require.Equal(t, 0, k.Stats().Rings[1].HighWater, "no pass has seen it")
	require.NoError(t, k.unordered().ForEach(func(Event) error { return ErrStop }))
	k.output(1, 4)
	s := k.Stats()
	require.Equal(t, 3*recordSize, s.Rings[1].HighWater)
	require.Equal(t, 3*recordSize, s.Rings[1].Used)
	require.Equal(t, firstCPU+1, s.Total().CPU)
	require.Equal(t, uint64(1), s.Total().Samples)
	require.Equal(t, fakeRingSize, s.Total().Size)
	k.output(0, 5)
	require.Len(t, ids(t, k.unordered()), 4)
	s = k.Stats()
	require.Equal(t, 3*recordSize, s.Rings[1].HighWater)
	require.Zero(t, s.Rings[1].Used)
	require.Equal(t, RingStats{CPU: firstCPU + 1, Size: fakeRingSize, HighWater: 96, Samples: 5, Bytes: 160, TailStores: 3}, s.Total())
}

// A head that cannot be is not believed: sizes stay plausible.
func TestUsedWithANonsensicalHead(t *testing.T) {
	k := newFake(t, 1, Options{})
	// The last one went back
	for head, used := range map[uint64]int{1 << 40: fakeRingSize, 1 << 62: fakeRingSize, ^uint64(0): 0} {
		k.w[0].SetHead(head)
		k.w[0].Publish()
		require.Equal(t, used, k.all()[0].Used())
	}
}

// A reader that goes on between the looks at head and tail does not make its ring look full.
func TestUsedWhileTheRingIsRead(t *testing.T) {
	k := newFake(t, 1, Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint64(200_000) {
			k.output(0, i+1)
			if err := StreamOf(t, k.all()[0]).ForEach(func(Event) error { return nil }); err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		if used := k.all()[0].Used(); used > recordSize {
			<-done
			require.LessOrEqual(t, used, recordSize, "there was never more than a record")
		}
	}
}
