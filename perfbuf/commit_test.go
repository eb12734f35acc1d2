package perfbuf

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
	eachSource(t, 1, func(t *testing.T, k *fake, src *Stream) {
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
			if err := k.ring(0).ForEach(func(Event) error { return nil }); err != nil {
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

// buffers are BPF ring buffers on Go memory that a stream reads, in a bubble: only the kernel and
// the bubble's clock make it look.
type buffers struct {
	*ringtest.RingBufs
	*Stream
	t     *testing.T
	looks atomic.Int64 // at the clock
	got   chan uint64  // times of events
}

const bufferSize = 4096

func newBuffers(t *testing.T, n int, source TimeSource, o StreamOptions) *buffers {
	b := &buffers{t: t, got: make(chan uint64, 1000)}
	b.RingBufs = ringtest.NewKernel(1, func(int) uint64 { b.looks.Add(1); return uint64(time.Now().UnixNano()) }).NewRingBufs(n, bufferSize, 0)
	r, err := OpenSource(b.RingBufs, Options{Time: source, Wakeup: Wakeup{PollInterval: 1000 * time.Hour}})
	require.NoError(t, err)
	b.Stream, err = r.Stream(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- b.Run(ctx, func(ev Event) error { b.got <- ev.Time(); return nil })
	}()
	t.Cleanup(func() {
		cancel()
		require.Equal(t, context.Canceled, <-done)
		require.NoError(t, b.Stream.Close())
		require.NoError(t, r.Close())
		<-r.Done()
	})
	synctest.Wait()
	return b
}

// A record that a program submits while a batch before it is being read comes with the next batch.
func TestSubmittedBehindABatch(t *testing.T) {
	b := ringtest.NewKernel(1, func(int) uint64 { return 0 }).NewRingBufs(1, bufferSize, 0)
	r, err := OpenSource(b, Options{})
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Stream(StreamOptions{Order: Unordered()})
	require.NoError(t, err)
	reserve := func(i byte) ringtest.Record {
		rec, err := b.Reserve(0, 0, 8)
		require.NoError(t, err)
		rec.Write(0, []byte{i})
		return rec
	}
	reserve(0).Commit(0)
	busy := reserve(1)
	var got []byte
	for range 3 {
		require.NoError(t, s.ForEachBatch(func(batch *Batch) error {
			for ev := range batch.Events() {
				got = append(got, ev.Bytes()[0])
			}
			if len(got) == 1 {
				busy.Commit(0)
			}
			return nil
		}))
	}
	require.Equal(t, []byte{0, 1}, got)
}

// record is a stamped reservation.
type bufferRecord struct {
	ringtest.Record
	of   *buffers
	time uint64
}

func (b *buffers) reserve(i int) bufferRecord {
	rec, err := b.Reserve(0, i, 8)
	require.NoError(b.t, err)
	time := uint64(time.Now().UnixNano())
	rec.Write(0, binary.NativeEndian.AppendUint64(nil, time))
	return bufferRecord{rec, b, time}
}

// end commits or discards the record, and reports whether the kernel has woken the stream.
func (r bufferRecord) end(end func(ringtest.Record, int) bool) (wake bool) {
	if wake = end(r.Record, 0); wake {
		r.of.Wake()
	}
	return wake
}

// idle reports how often the clock was read in ten seconds in which the kernel does nothing.
func (b *buffers) idle() int64 {
	synctest.Wait()
	before := b.looks.Load()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	return b.looks.Load() - before
}

// Discarded records are given back as soon as they are seen, so that they fill no ring, and the
// next record wakes the stream.
func TestDiscardedRecordsAreGivenBack(t *testing.T) {
	for name, source := range map[string]TimeSource{"stamped": StampedTime(0), "payload": PayloadTime(0)} {
		for _, spill := range []int{0, -1} {
			runInBubble(t, name, func(t *testing.T) {
				b := newBuffers(t, 1, source, StreamOptions{Spill: Spill{Bytes: spill}})
				for range 3 * bufferSize / 16 {
					require.True(t, b.reserve(0).end(ringtest.Record.Discard))
					synctest.Wait()
					require.Equal(t, b.At(0).Head(), b.At(0).Tail())
				}
				event := b.reserve(0)
				require.True(t, event.end(ringtest.Record.Commit), "nobody is woken")
				require.Equal(t, event.time, <-b.got)
				require.Less(t, uint64(time.Now().UnixNano())-event.time, uint64(time.Millisecond))
			})
		}
	}
}

// A record that is reserved and not committed for long holds a stamped stream up, and costs nothing
// meanwhile.
func TestBusyRecordCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const few = 20
		b := newBuffers(t, 2, StampedTime(0), StreamOptions{})
		busy := b.reserve(0)
		require.Less(t, b.idle(), int64(few), "nothing behind it")
		b.reserve(0).end(ringtest.Record.Discard)
		require.False(t, b.reserve(0).end(ringtest.Record.Commit))
		require.True(t, b.reserve(1).end(ringtest.Record.Commit))
		require.Less(t, b.idle(), int64(few), "events behind it, and of another ring buffer")
		require.NoError(t, b.Flush())
		require.Less(t, b.idle(), int64(few), "a flush")
		require.Empty(t, b.got)
		require.True(t, busy.end(ringtest.Record.Commit), "nobody is woken")
		released := time.Now()
		for range 4 { // and the marker
			<-b.got
		}
		require.Less(t, time.Since(released), time.Millisecond)

		// What was committed right before it is held too, and keeps the tail: nobody is woken, so
		// the stream looks.
		b.reserve(0).end(ringtest.Record.Commit)
		busy = b.reserve(0)
		require.Less(t, b.idle(), int64(1000))
		require.Empty(t, b.got)
		require.False(t, busy.end(ringtest.Record.Commit), "else the test is of nothing")
		released = time.Now()
		<-b.got
		<-b.got
		require.LessOrEqual(t, time.Since(released), 100*time.Millisecond)
	})
}

// Everything that would use the stream that a pass is over is refused, and every other stream over
// its rings, from the function that events are handed to and from other goroutines. Nothing is lost
// by it.
func TestBusy(t *testing.T) {
	calls := map[string]func(k *fake, s *Stream) error{
		"ForEach":        func(_ *fake, s *Stream) error { return s.ForEach(never) },
		"ForEachPending": func(_ *fake, s *Stream) error { return s.ForEachPending(never) },
		"RunBatches": func(k *fake, s *Stream) error {
			return s.RunBatches(k.t.Context(), func(*Batch) error { panic("called") })
		},
		"Wait":  func(k *fake, s *Stream) error { return s.Wait(k.t.Context()) },
		"Drain": func(k *fake, s *Stream) error { return s.Drain(k.t.Context(), never) },
		"Fold": func(k *fake, s *Stream) error {
			n, err := Fold(s, 5, func(int, Event) (int, error) { panic("called") })
			require.Equal(k.t, 5, n)
			return err
		},
		"Events": func(k *fake, s *Stream) (last error) {
			for ev, err := range s.Events(k.t.Context()) {
				require.Equal(k.t, Event{}, ev)
				last = err
			}
			return last
		},
		"Ring.Stream":   func(k *fake, _ *Stream) error { _, err := k.all()[0].Stream(); return err },
		"Reader.Stream": func(k *fake, _ *Stream) error { _, err := k.Stream(StreamOptions{}); return err },
		"unordered":     func(k *fake, _ *Stream) error { _, err := k.Stream(StreamOptions{Order: Unordered()}); return err },
	}
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			k.programs = &fakePrograms{}
			src := source(k)
			k.output(0, 1, 2, 3)
			var got []uint64
			require.NoError(t, src.ForEach(func(ev Event) error {
				for call, inner := range calls {
					require.ErrorIs(t, inner(k, src), ErrBusy, "%s, within f", call)
					from := make(chan error)
					go func() { from <- inner(k, src) }()
					require.ErrorIs(t, <-from, ErrBusy, "%s, from another goroutine", call)
				}
				got = append(got, id(t, ev))
				return nil
			}))
			require.Equal(t, seq(1, 3), got)
			k.output(0, 4)
			require.Equal(t, []uint64{4}, ids(t, src), "nothing is left claimed")
			require.Equal(t, k.w[0].Head(), k.w[0].Tail())
		})
	}
}

func never(Event) error { panic("called") }

// An open stream holds its rings between passes too, and says so. They are free at its Close.
func TestOpenStreamHoldsItsRings(t *testing.T) {
	all := func(k *fake) (*Stream, error) { return k.Stream(StreamOptions{Order: Unordered()}) }
	one := func(ring int) func(k *fake) (*Stream, error) {
		return func(k *fake) (*Stream, error) { return k.all()[ring].Stream() }
	}
	order := func(k *fake) (*Stream, error) { return k.Stream(StreamOptions{Order: Slack(0)}) }
	open := map[string]func(k *fake) (*Stream, error){"ordered": order, "unordered": all, "ring": one(1)}
	for first, open := range open {
		for second, c := range map[string]struct {
			open func(k *fake) (*Stream, error)
			says string
			free bool
		}{
			"ordered": {order, "", false}, "unordered": {all, "", false}, "the ring": {one(1), "", false}, "another ring": {one(0), "", first == "ring"},
		} {
			t.Run(first+", "+second, func(t *testing.T) {
				k := newFake(t, 2, Options{})
				s, err := open(k)
				require.NoError(t, err)
				other, err := c.open(k)
				if c.free {
					require.NoError(t, err)
					require.NoError(t, other.Close())
				} else {
					require.ErrorIs(t, err, ErrBusy)
				}
				switch {
				case err == nil:
				case first != "ring":
					require.ErrorContains(t, err, "a Stream holds all rings")
				default:
					require.ErrorContains(t, err, "CPU 11: a Stream holds this ring")
				}
				k.output(1, 1)
				require.Equal(t, []uint64{1}, ids(t, s))
				require.NoError(t, s.Close())
				other, err = c.open(k)
				require.NoError(t, err, "nothing is left claimed")
				k.output(1, 2)
				if second != "another ring" {
					require.Equal(t, []uint64{2}, ids(t, other))
				}
			})
		}
	}
}

// A stream that cannot have all rings lets those go that it had.
func TestRefusedStreamHoldsNoRing(t *testing.T) {
	k := newFake(t, 3, Options{})
	last, err := k.all()[2].Stream()
	require.NoError(t, err)
	_, err = k.Stream(StreamOptions{Order: Unordered()})
	require.ErrorIs(t, err, ErrBusy)
	k.output(0, 2)
	require.Equal(t, []uint64{2}, ids(t, k.ring(0)))
	require.NoError(t, last.Close())
}

func TestRingsAreReadConcurrently(t *testing.T) {
	const rings, events = 4, 3000
	k := newFake(t, rings, Options{})
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() {
			next := uint64(1)
			for written := uint64(0); next <= events; {
				for written < min(events, next+50) {
					written++
					k.output(i, written)
				}
				if err := k.ring(i).ForEach(func(ev Event) error {
					if got := id(t, ev); got != next || ev.CPU() != firstCPU+i {
						t.Errorf("event %d of CPU %d where %d was due", got, ev.CPU(), next)
					}
					next++
					return nil
				}); err != nil {
					t.Error(err)
				}
				k.Stats()
			}
		})
	}
	wg.Wait()
	require.Equal(t, uint64(rings*events), k.Stats().Total().Samples)
}
